#include "baton/net/io/bind.h"

#include <string>

#include <boost/asio/ip/address.hpp>
#include <fmt/format.h>

namespace baton::net {
namespace {

using boost::asio::ip::address;
using boost::asio::ip::make_address;

bool is_loopback_address(const address& ip) {
  if (ip.is_v6() && ip.to_v6().is_v4_mapped()) {
    return make_address_v4(boost::asio::ip::v4_mapped, ip.to_v6()).is_loopback();
  }
  return ip.is_loopback();
}

}  // namespace

bool is_loopback(std::string_view host) {
  if (host == "localhost") return true;
  boost::system::error_code ec;
  const address ip = make_address(std::string(host), ec);
  return !ec && is_loopback_address(ip);
}

Result<void> check_bind(std::string_view option, const Endpoint& endpoint, bool trusted_network) {
  if (is_loopback(endpoint.host)) return ok();
  boost::system::error_code ec;
  make_address(endpoint.host, ec);
  if (ec) {
    return Error(
        Reason::bad_config,
        fmt::format("{}: \"{}\" is no address to listen on: write an IP address or localhost",
                    option, endpoint.host));
  }
  if (trusted_network) return ok();
  return Error(Reason::bad_config,
               fmt::format("{}: {} is outside loopback and connections are not encrypted: set "
                           "trusted_network if everybody on that network may be trusted",
                           option, endpoint.to_string()));
}

}  // namespace baton::net
