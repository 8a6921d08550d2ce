#include "address.h"

#include <charconv>
#include <cstdint>
#include <cstring>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <netinet/in.h>

namespace baton::transport::ucx {
namespace {

const sockaddr_in& as_v4(const sockaddr_storage& storage) {
  return reinterpret_cast<const sockaddr_in&>(storage);
}
const sockaddr_in6& as_v6(const sockaddr_storage& storage) {
  return reinterpret_cast<const sockaddr_in6&>(storage);
}

bool same_host(const sockaddr_storage& left, const sockaddr_storage& right) {
  if (left.ss_family != right.ss_family) return false;
  if (left.ss_family == AF_INET) {
    return as_v4(left).sin_addr.s_addr == as_v4(right).sin_addr.s_addr;
  }
  return std::memcmp(&as_v6(left).sin6_addr, &as_v6(right).sin6_addr, sizeof(in6_addr)) == 0;
}

}  // namespace

Result<SocketAddress> parse_socket_address(std::string_view text) {
  const Error malformed(Reason::invalid_request,
                        fmt::format("'{}' is not ip:port", text.substr(0, 64)));
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return malformed;
  std::string host(text.substr(0, colon));
  const std::string_view digits = text.substr(colon + 1);
  std::uint16_t port = 0;
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (parsed.ec != std::errc() || parsed.ptr != digits.data() + digits.size()) return malformed;
  SocketAddress result;
  auto& v4 = reinterpret_cast<sockaddr_in&>(result.storage);
  auto& v6 = reinterpret_cast<sockaddr_in6&>(result.storage);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(port);
    result.size = sizeof(sockaddr_in6);
    if (inet_pton(AF_INET6, host.c_str(), &v6.sin6_addr) != 1) return malformed;
    return result;
  }
  v4.sin_family = AF_INET;
  v4.sin_port = htons(port);
  result.size = sizeof(sockaddr_in);
  if (inet_pton(AF_INET, host.c_str(), &v4.sin_addr) != 1) return malformed;
  return result;
}

std::string format_socket_address(const SocketAddress& address) {
  char host[INET6_ADDRSTRLEN] = {};
  if (address.storage.ss_family == AF_INET) {
    const sockaddr_in& v4 = as_v4(address.storage);
    inet_ntop(AF_INET, &v4.sin_addr, host, sizeof(host));
    return fmt::format("{}:{}", host, ntohs(v4.sin_port));
  }
  if (address.storage.ss_family == AF_INET6) {
    const sockaddr_in6& v6 = as_v6(address.storage);
    inet_ntop(AF_INET6, &v6.sin6_addr, host, sizeof(host));
    return fmt::format("[{}]:{}", host, ntohs(v6.sin6_port));
  }
  return {};
}

std::string device_of(const SocketAddress& address) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return {};
  std::string device;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr) continue;
    const int family = entry->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    sockaddr_storage storage = {};
    std::memcpy(&storage, entry->ifa_addr,
                family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
    if (same_host(storage, address.storage)) device = entry->ifa_name;
  }
  freeifaddrs(list);
  return device;
}

bool is_wildcard(const SocketAddress& address) {
  if (address.storage.ss_family == AF_INET) {
    return as_v4(address.storage).sin_addr.s_addr == INADDR_ANY;
  }
  return IN6_IS_ADDR_UNSPECIFIED(&as_v6(address.storage).sin6_addr);
}

}  // namespace baton::transport::ucx
