// Addresses of this transport: "shm:<boot id>:<uid>:<32 hex digits of the socket's name>".
#pragma once

#include <string>
#include <string_view>

#include <sys/un.h>

#include "baton/base/result.h"

namespace baton::transport::shm {

/// Where this process and its peers live: only equal ones can share memory.
struct Host {
  std::string boot_id;
  unsigned uid = 0;
};

Result<Host> this_host();

std::string make_address(const Host& host, std::string_view socket_name);

/// The socket's name. Reason::invalid_request for what is no address of ours,
/// Reason::transport_failed for one of another host or user.
Result<std::string> parse_address(std::string_view address, const Host& host);

struct SocketAddress {
  sockaddr_un address{};
  unsigned size = 0;
};
SocketAddress abstract_address(std::string_view socket_name);

}  // namespace baton::transport::shm
