#include "raw_client.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "baton/base/check.h"

namespace baton::net::testing {

RawClient::RawClient(const Endpoint& server, int receive_buffer_bytes)
    : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
  BATON_CHECK(fd_ >= 0);
  if (receive_buffer_bytes > 0) {
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer_bytes, sizeof(receive_buffer_bytes));
  }
  const int on = 1;
  ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(server.port);
  BATON_CHECK(::inet_pton(AF_INET, server.host.c_str(), &address.sin_addr) == 1);
  const int connected = ::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address));
  BATON_CHECK(connected == 0);
}

RawClient::RawClient(RawClient&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      closed_(other.closed_),
      buffer_(std::move(other.buffer_)) {}

RawClient::~RawClient() { close(); }

bool RawClient::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

bool RawClient::receive(Instant deadline) {
  const auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(deadline - monotonic_now()).count();
  pollfd waiting{fd_, POLLIN, 0};
  if (left <= 0 || ::poll(&waiting, 1, static_cast<int>(left)) <= 0) return false;
  std::array<char, 65536> bytes;
  const ssize_t got = ::recv(fd_, bytes.data(), bytes.size(), 0);
  if (got <= 0) {
    closed_ = true;
    return false;
  }
  buffer_.append(bytes.data(), static_cast<std::size_t>(got));
  return true;
}

std::string RawClient::read_until(std::string_view mark, Duration patience) {
  const Instant deadline = monotonic_now() + patience;
  std::size_t at = 0;
  while ((at = buffer_.find(mark)) == std::string::npos && receive(deadline)) {
  }
  const std::size_t taken = at == std::string::npos ? buffer_.size() : at + mark.size();
  std::string out = buffer_.substr(0, taken);
  buffer_.erase(0, taken);
  return out;
}

std::string RawClient::read_answer(Duration patience) {
  const Instant deadline = monotonic_now() + patience;
  std::string out = read_until("\r\n\r\n", patience);
  constexpr std::string_view field = "Content-Length: ";
  const std::size_t at = out.find(field);
  if (at == std::string::npos) return out;
  const auto length =
      static_cast<std::size_t>(std::strtoul(out.c_str() + at + field.size(), nullptr, 10));
  while (buffer_.size() < length && receive(deadline)) {
  }
  const std::size_t taken = std::min(length, buffer_.size());
  out += buffer_.substr(0, taken);
  buffer_.erase(0, taken);
  return out;
}

std::string RawClient::read_all(Duration patience) {
  const Instant deadline = monotonic_now() + patience;
  while (receive(deadline)) {
  }
  return std::exchange(buffer_, {});
}

std::string RawClient::read_once(Duration patience) {
  if (buffer_.empty()) receive(monotonic_now() + patience);
  return std::exchange(buffer_, {});
}

void RawClient::shut_down_sending() { ::shutdown(fd_, SHUT_WR); }

void RawClient::close() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

void RawClient::reset() {
  const linger hard{1, 0};
  ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
  close();
}

}  // namespace baton::net::testing
