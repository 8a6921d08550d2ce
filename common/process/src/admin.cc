#include "baton/process/admin.h"

#include <utility>

namespace baton::process {
namespace {

const net::HttpHeaders text_headers = {{"Content-Type", "text/plain; charset=utf-8"}};

void answer(const AdminRoutes& routes, const net::HttpRequest& request,
            net::HttpResponder& responder) {
  if (request.method != "GET" && request.method != "HEAD") {
    return responder.send(405, text_headers, "method not allowed\n");
  }
  if (request.path == "/metrics") {
    return responder.send(200, {{"Content-Type", std::string(metrics::exposition_content_type)}},
                          routes.registry->expose());
  }
  if (request.path == "/livez") return send_health(responder, routes.alive());
  if (request.path == "/readyz" || request.path == "/health") {
    return send_health(responder, routes.ready());
  }
  if (request.path == "/startupz") return send_health(responder, routes.started());
  if (std::optional<std::string> json = routes.json(request.path)) {
    return responder.send(200, {{"Content-Type", "application/json"}}, std::move(*json));
  }
  responder.send(404, text_headers, "not found\n");
}

}  // namespace

void send_health(net::HttpResponder& responder, const Health& health) {
  responder.send(health.good ? 200 : 503, text_headers, health.text + "\n");
}

Result<std::unique_ptr<net::HttpServer>> listen_admin(net::EventLoop& loop,
                                                      net::HttpServer::Options options,
                                                      AdminRoutes routes) {
  options.handler = [routes = std::move(routes)](
                        const net::HttpRequest& request,
                        const std::shared_ptr<net::HttpResponder>& responder) {
    answer(routes, request, *responder);
  };
  return net::HttpServer::listen(loop, std::move(options));
}

}  // namespace baton::process
