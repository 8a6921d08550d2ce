// Which addresses a listener may take (R28: defaults bind loopback, the rest is asked for by name).
#pragma once

#include <string_view>

#include "baton/base/endpoint.h"
#include "baton/base/result.h"

namespace baton::net {

/// 127.0.0.0/8, ::1, their IPv4-mapped form, and the name "localhost". Any other name is not.
bool is_loopback(std::string_view host);

/// Reason::bad_config when the endpoint is outside loopback and the network was not declared
/// trusted, or when its host is neither an IP literal nor "localhost". `option` names the setting
/// in the message ("router.listen").
Result<void> check_bind(std::string_view option, const Endpoint& endpoint, bool trusted_network);

}  // namespace baton::net
