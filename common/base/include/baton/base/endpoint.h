// "host:port" as a value. Nothing is resolved here.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "baton/base/result.h"

namespace baton {

/// Host is an IP literal (IPv6 without brackets) or a name; port 0 asks the system for a free one.
struct Endpoint {
  std::string host = "127.0.0.1";
  std::uint16_t port = 0;

  /// "host:port", IPv6 hosts in brackets.
  std::string to_string() const;

  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};

/// Parses "host:port" or "[ipv6]:port"; Reason::bad_config for anything else.
Result<Endpoint> parse_endpoint(std::string_view text);

}  // namespace baton
