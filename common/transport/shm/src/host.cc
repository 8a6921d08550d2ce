#include "host.h"

#include <cstddef>
#include <cstring>
#include <fstream>

#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include "baton/base/check.h"

namespace baton::transport::shm {
namespace {

constexpr std::string_view prefix = "shm:";
constexpr std::size_t name_digits = 32;

std::string_view take_field(std::string_view& rest) {
  const std::size_t colon = rest.find(':');
  const std::string_view field = rest.substr(0, colon);
  rest = colon == std::string_view::npos ? std::string_view() : rest.substr(colon + 1);
  return field;
}

}  // namespace

Result<Host> this_host() {
  Host host;
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  if (!std::getline(file, host.boot_id)) {
    return Error(Reason::io_error, "cannot read /proc/sys/kernel/random/boot_id");
  }
  host.uid = geteuid();
  return host;
}

std::string make_address(const Host& host, std::string_view socket_name) {
  return fmt::format("{}{}:{}:{}", prefix, host.boot_id, host.uid, socket_name);
}

Result<std::string> parse_address(std::string_view address, const Host& host) {
  if (!address.starts_with(prefix)) {
    return Error(Reason::invalid_request, "not a shared memory address");
  }
  address.remove_prefix(prefix.size());
  const std::string_view boot_id = take_field(address);
  const std::string_view uid = take_field(address);
  const std::string_view name = take_field(address);
  const bool hex = name.find_first_not_of("0123456789abcdef") == std::string_view::npos;
  if (name.size() != name_digits || !hex || !address.empty()) {
    return Error(Reason::invalid_request, "malformed shared memory address");
  }
  if (boot_id != host.boot_id) {
    return Error(Reason::transport_failed,
                 fmt::format("shared memory needs one host: the peer's boot id is {}, ours is {}",
                             boot_id.substr(0, 64), host.boot_id));
  }
  if (uid != std::to_string(host.uid)) {
    return Error(Reason::transport_failed,
                 fmt::format("shared memory needs one user: the peer's uid is {}, ours is {}",
                             uid.substr(0, 16), host.uid));
  }
  return std::string(name);
}

SocketAddress abstract_address(std::string_view socket_name) {
  // A leading zero byte puts the name into the abstract namespace: nothing is left on a disk.
  const std::string name = fmt::format("baton-{}", socket_name);
  SocketAddress result;
  result.address.sun_family = AF_UNIX;
  BATON_CHECK(name.size() + 1 <= sizeof(result.address.sun_path));
  std::memcpy(result.address.sun_path + 1, name.data(), name.size());
  result.size = static_cast<unsigned>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return result;
}

}  // namespace baton::transport::shm
