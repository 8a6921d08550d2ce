#include "baton/base/endpoint.h"

#include <charconv>

#include <fmt/format.h>

namespace baton {
namespace {

Error not_an_endpoint(std::string_view text) {
  return Error(Reason::bad_config,
               fmt::format("\"{}\" is not HOST:PORT (or [IPV6]:PORT, port 0 to 65535)", text));
}

}  // namespace

std::string Endpoint::to_string() const {
  const bool v6 = host.find(':') != std::string::npos;
  return v6 ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

Result<Endpoint> parse_endpoint(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return not_an_endpoint(text);
  std::string_view host = text.substr(0, colon);
  const std::string_view port = text.substr(colon + 1);
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  const bool has_colon = host.find(':') != std::string_view::npos;
  if (host.empty() || bracketed != has_colon ||
      host.find_first_of(" \t/[]@") != std::string_view::npos) {
    return not_an_endpoint(text);
  }
  std::uint16_t number = 0;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
  if (port.empty() || error != std::errc() || end != port.data() + port.size()) {
    return not_an_endpoint(text);
  }
  return Endpoint{std::string(host), number};
}

}  // namespace baton
