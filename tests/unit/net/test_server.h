// An HTTP server with the few routes that the tests need.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "baton/net/io/http_server.h"

#include "loop_thread.h"

namespace baton::net::testing {

class TestServer {
 public:
  explicit TestServer(HttpLimits limits = {}) {
    if (limits.connections_per_address == HttpLimits{}.connections_per_address) {
      limits.connections_per_address = 0;
    }
    server_ = thread_.on_loop([&] {
      HttpServer::Options options;
      options.limits = limits;
      options.handler = [this](HttpRequest request, std::shared_ptr<HttpResponder> responder) {
        handle(std::move(request), std::move(responder));
      };
      options.error_body = [](const Error& error) {
        return fmt::format(R"({{"error":{{"message":"{}","code":"{}"}}}})", error.message(),
                           info(error.reason()).openai_code);
      };
      return HttpServer::listen(thread_.loop(), std::move(options)).value();
    });
    endpoint_ = server_->endpoint();
  }

  ~TestServer() {
    thread_.on_loop([this] {
      server_.reset();
      held.clear();
    });
  }

  const Endpoint& endpoint() const { return endpoint_; }
  LoopThread& thread() { return thread_; }

  HttpServerStats stats() {
    return thread_.on_loop([this] { return stats_on_loop(); });
  }

  void drain() {
    thread_.on_loop([this] { server_->drain(); });
  }

  /// Waits until so many requests are held by /hold.
  bool wait_held(std::size_t count) {
    return thread_.wait_until([this, count] { return held.size() >= count; });
  }

  bool wait_disconnected(std::size_t count, Duration patience = test_patience) {
    return thread_.wait_until([this, count] { return disconnected >= count; }, patience);
  }

  // Loop thread only, from here on.
  HttpServerStats stats_on_loop() const { return server_->stats(); }
  std::vector<std::shared_ptr<HttpResponder>> held;
  std::size_t disconnected = 0;
  std::size_t seen = 0;
  std::function<void(HttpRequest, std::shared_ptr<HttpResponder>)> on_custom;

 private:
  void handle(HttpRequest request, std::shared_ptr<HttpResponder> responder) {
    ++seen;
    if (request.path == "/hold" || request.path == "/stream") {
      responder->on_disconnect([this] { ++disconnected; });
      if (request.path == "/stream") {
        responder->start_stream(200, {{"Content-Type", "text/event-stream"}});
      }
      held.push_back(std::move(responder));
    } else if (request.path == "/drop") {
      responder.reset();
    } else if (request.path == "/custom") {
      on_custom(std::move(request), std::move(responder));
    } else {
      responder->send(
          200, {{"Content-Type", "text/plain"}},
          fmt::format("{} {} ?{} [{}]", request.method, request.path, request.query, request.body));
    }
  }

  LoopThread thread_;
  std::unique_ptr<HttpServer> server_;
  Endpoint endpoint_;
};

inline int status_of(const std::string& answer) {
  return answer.starts_with("HTTP/1.1 ") && answer.size() > 12 ? std::stoi(answer.substr(9, 3)) : 0;
}

inline std::string body_of(const std::string& answer) {
  const std::size_t end = answer.find("\r\n\r\n");
  return end == std::string::npos ? "" : answer.substr(end + 4);
}

inline std::string get(const std::string& path, const std::string& more = "") {
  return "GET " + path + " HTTP/1.1\r\nHost: test\r\n" + more + "\r\n";
}

inline std::string post(const std::string& path, const std::string& body) {
  return fmt::format("POST {} HTTP/1.1\r\nHost: test\r\nContent-Length: {}\r\n\r\n{}", path,
                     body.size(), body);
}

}  // namespace baton::net::testing
