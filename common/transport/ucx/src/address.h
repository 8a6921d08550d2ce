// "ip:port" (IPv6 in brackets) and socket addresses.
#pragma once

#include <string>
#include <string_view>

#include <sys/socket.h>

#include "baton/base/result.h"

namespace baton::transport::ucx {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

/// Numeric addresses only: no name is ever resolved. Reason::invalid_request.
Result<SocketAddress> parse_socket_address(std::string_view text);

/// "ip:port"; empty for another family.
std::string format_socket_address(const SocketAddress& address);

/// The network device that has this address; empty if none has it.
std::string device_of(const SocketAddress& address);

/// True for 0.0.0.0 and [::], which no peer can connect to.
bool is_wildcard(const SocketAddress& address);

}  // namespace baton::transport::ucx
