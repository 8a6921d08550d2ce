// The routes of an admin listener.
#include "baton/process/admin.h"

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "baton/net/io/http_client.h"

namespace baton::process {
namespace {

using testing::HasSubstr;

class Admin : public testing::Test {
 protected:
  Admin() {
    AdminRoutes routes;
    routes.registry = &registry_;
    routes.alive = [] { return Health{true, "alive"}; };
    routes.ready = [this] { return Health{!draining, draining ? "draining" : "ready"}; };
    routes.started = [] { return Health{false, "loaded 3 %"}; };
    routes.json = [](std::string_view path) -> std::optional<std::string> {
      if (path != "/own") return std::nullopt;
      return "{}";
    };
    net::HttpServer::Options options;
    registry_.counter("baton_things_total", "Things.").add(3);
    options.error_body = [](const Error& error) { return error.message(); };
    server_ = listen_admin(loop_, std::move(options), std::move(routes)).value();
    endpoint_ = server_->endpoint();
    thread_ = std::thread([this] { loop_.run(); });
  }
  ~Admin() override {
    loop_.stop();
    thread_.join();
    server_.reset();
  }

  /// Status and body.
  std::pair<int, std::string> ask(const std::string& target, const std::string& method = "GET") {
    net::HttpCall call;
    call.method = method;
    call.target = target;
    Result<net::HttpResponse> response = net::http_call(endpoint_, call);
    if (!response) return {0, response.error().message()};
    return {response->status, std::move(response->body)};
  }

  std::atomic<bool> draining = false;

 private:
  net::EventLoop loop_;
  metrics::Registry registry_{"router", "r0"};
  std::unique_ptr<net::HttpServer> server_;
  Endpoint endpoint_;
  std::thread thread_;
};

TEST_F(Admin, HealthIsAStatusAndALineOfText) {
  EXPECT_EQ(ask("/livez"), std::pair(200, std::string("alive\n")));
  EXPECT_EQ(ask("/startupz"), std::pair(503, std::string("loaded 3 %\n")));
  EXPECT_EQ(ask("/readyz"), std::pair(200, std::string("ready\n")));
  draining = true;
  EXPECT_EQ(ask("/readyz"), std::pair(503, std::string("draining\n")));
  EXPECT_EQ(ask("/health"), std::pair(503, std::string("draining\n")));
}

TEST_F(Admin, ARoleHasRoutesOfItsOwn) {
  EXPECT_EQ(ask("/own"), std::pair(200, std::string("{}")));
  EXPECT_EQ(ask("/others").first, 404);
  EXPECT_EQ(ask("/own", "POST").first, 405);
}

TEST_F(Admin, MetricsAreThoseOfTheRegistry) {
  const auto [status, body] = ask("/metrics");
  EXPECT_EQ(status, 200);
  EXPECT_THAT(body, HasSubstr("baton_things_total{node=\"r0\",role=\"router\"} 3\n"));
}

}  // namespace
}  // namespace baton::process
