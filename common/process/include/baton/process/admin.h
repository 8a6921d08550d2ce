// The admin listener of a server program: health and metrics over HTTP.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "baton/metrics/registry.h"
#include "baton/net/io/http_server.h"

namespace baton::process {

/// The answer of a health route: 200 or 503 with a line of text.
struct Health {
  bool good = false;
  std::string text;
};

void send_health(net::HttpResponder& responder, const Health& health);

/// Called on the loop, while the server lives.
struct AdminRoutes {
  const metrics::Registry* registry = nullptr;  ///< /metrics
  std::function<Health()> alive;                ///< /livez
  std::function<Health()> ready;                ///< /readyz, /health
  std::function<Health()> started;              ///< /startupz
  /// The JSON of a route of this role's own; nothing where there is none.
  std::function<std::optional<std::string>(std::string_view path)> json;
};

/// `options` without a handler.
Result<std::unique_ptr<net::HttpServer>> listen_admin(net::EventLoop& loop,
                                                      net::HttpServer::Options options,
                                                      AdminRoutes routes);

}  // namespace baton::process
