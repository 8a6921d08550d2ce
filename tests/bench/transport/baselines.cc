#include "baselines.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <thread>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "baton/base/check.h"

namespace baton::transport::bench {
namespace {

constexpr std::size_t parts_per_call = 64;

std::vector<iovec> to_parts(const std::vector<Extent>& extents) {
  std::vector<iovec> parts;
  for (const Extent& extent : extents) parts.push_back({extent.data, extent.bytes});
  return parts;
}

/// Calls writev or readv until all parts are through.
template <typename Call>
void move_all(const std::vector<Extent>& extents, const Call& call) {
  std::vector<iovec> parts = to_parts(extents);
  for (std::size_t first = 0; first < parts.size();) {
    const auto count = static_cast<int>(std::min(parts_per_call, parts.size() - first));
    const ssize_t moved = call(&parts[first], count);
    BATON_CHECK(moved > 0);
    auto rest = static_cast<std::size_t>(moved);
    while (rest > 0) {
      const std::size_t step = std::min(rest, parts[first].iov_len);
      parts[first].iov_base = static_cast<char*>(parts[first].iov_base) + step;
      parts[first].iov_len -= step;
      rest -= step;
      if (parts[first].iov_len == 0) ++first;
    }
  }
}

}  // namespace

Duration time_memcpy(const Lists& lists, int repeats) {
  const Instant start = monotonic_now();
  for (int i = 0; i < repeats; ++i) {
    for (std::size_t part = 0; part < lists.from.size(); ++part) {
      std::memcpy(lists.to[part].data, lists.from[part].data, lists.from[part].bytes);
    }
  }
  return monotonic_now() - start;
}

TcpPair::TcpPair(const std::string& congestion_control) {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  if (!congestion_control.empty()) {
    BATON_CHECK(setsockopt(listener, IPPROTO_TCP, TCP_CONGESTION, congestion_control.data(),
                           static_cast<socklen_t>(congestion_control.size())) == 0);
  }
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  BATON_CHECK(bind(listener, generic, size) == 0 && listen(listener, 1) == 0);
  getsockname(listener, generic, &size);
  writer_ = socket(AF_INET, SOCK_STREAM, 0);
  if (!congestion_control.empty()) {
    setsockopt(writer_, IPPROTO_TCP, TCP_CONGESTION, congestion_control.data(),
               static_cast<socklen_t>(congestion_control.size()));
  }
  BATON_CHECK(connect(writer_, generic, size) == 0);
  reader_ = accept(listener, nullptr, nullptr);
  const int on = 1;
  setsockopt(writer_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  close(listener);
}

TcpPair::~TcpPair() {
  close(writer_);
  close(reader_);
}

Duration TcpPair::time(const Lists& lists, int repeats) const {
  const Instant start = monotonic_now();
  std::thread writing([&] {
    for (int i = 0; i < repeats; ++i) {
      move_all(lists.from,
               [this](const iovec* parts, int count) { return writev(writer_, parts, count); });
    }
  });
  for (int i = 0; i < repeats; ++i) {
    move_all(lists.to,
             [this](const iovec* parts, int count) { return readv(reader_, parts, count); });
  }
  writing.join();
  return monotonic_now() - start;
}

}  // namespace baton::transport::bench
