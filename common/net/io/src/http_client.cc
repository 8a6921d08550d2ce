#include "baton/net/io/http_client.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "baton/net/io/event_loop.h"

#include "http_head.h"
#include "http_parser.h"
#include "tcp.h"

namespace baton::net {
namespace {

/// How often keep_going is asked.
constexpr Duration poll_interval = std::chrono::milliseconds(50);

class Call {
 public:
  Call(const Endpoint& server, const HttpCall& call)
      : server_(server),
        call_(call),
        parser_(call.method == "HEAD", {[this](HttpResponse head) { on_head(std::move(head)); },
                                        [this](std::string_view piece) { on_body(piece); }}) {}

  ~Call() {
    if (stream_) stream_->close();
    if (connector_) connector_->cancel();
  }

  Result<HttpResponse> run() {
    const Instant deadline = monotonic_now() + call_.total_time;
    connector_ = std::make_shared<TcpConnector>(loop_);
    connector_->start(server_, call_.connect_time,
                      [this](Result<TcpSocket> socket) { on_connect(std::move(socket)); });
    last_byte_at_ = monotonic_now();
    while (!failure_ && !done_) {
      loop_.run_one(poll_interval);
      const Instant now = monotonic_now();
      if (done_ || failure_) break;
      if (call_.keep_going && !call_.keep_going()) fail(Reason::cancelled, "cancelled");
      if (now > deadline) fail(Reason::deadline_exceeded, "the answer is not complete in time");
      if (stream_ && now - last_byte_at_ > call_.idle_time) {
        fail(Reason::deadline_exceeded, "no byte of the answer came for too long");
      }
    }
    if (failure_) return *failure_;
    return std::move(response_);
  }

 private:
  void on_connect(Result<TcpSocket> socket) {
    if (socket.has_error()) {
      const bool late = socket.error().reason() == Reason::deadline_exceeded;
      failure_.emplace(late ? Reason::deadline_exceeded : Reason::io_error,
                       socket.error().message());
      return;
    }
    last_byte_at_ = monotonic_now();
    stream_ = std::make_shared<TcpStream>(loop_, std::move(*socket));
    stream_->start({[this](std::string_view bytes) { on_bytes(bytes); },
                    [this](const std::string& why) { on_end(why); }});
    stream_->queue(request_text());
    stream_->flush();
  }

  std::string request_text() const {
    std::string out = fmt::format("{} {} HTTP/1.1\r\n", call_.method, call_.target);
    append_header(out, "Host", server_.to_string());
    for (const auto& [name, value] : call_.headers) append_header(out, name, value);
    append_header(out, "Connection", "close");
    if (!call_.body.empty() || call_.method == "POST") {
      append_header(out, "Content-Length", std::to_string(call_.body.size()));
    }
    return out.append("\r\n").append(call_.body);
  }

  void on_bytes(std::string_view bytes) {
    last_byte_at_ = monotonic_now();
    input_.append(bytes);
    const Result<std::size_t> used = parser_.feed(input_);
    if (used.has_error()) return fail(used.error().reason(), used.error().message());
    input_.erase(0, *used);
    done_ = parser_.done();
  }

  void on_end(const std::string& why) {
    if (failure_) return;
    done_ = parser_.ends_here();
    if (!done_) fail(Reason::io_error, fmt::format("the answer was cut off: {}", why));
  }

  void on_head(HttpResponse head) {
    response_ = std::move(head);
    if (call_.on_head) call_.on_head(response_);
  }

  void on_body(std::string_view piece) {
    if (failure_) return;
    if (call_.on_body) {
      if (!call_.on_body(piece)) fail(Reason::cancelled, "cancelled");
      return;
    }
    if (response_.body.size() + piece.size() > call_.body_limit_bytes) {
      return fail(Reason::protocol_violation, "the body of the answer is too long");
    }
    response_.body.append(piece);
  }

  void fail(Reason reason, std::string_view why) {
    if (!failure_) {
      failure_.emplace(reason, fmt::format("{} {}: {}", server_.to_string(), call_.target, why));
    }
  }

  EventLoop loop_;
  const Endpoint& server_;
  const HttpCall& call_;
  std::shared_ptr<TcpConnector> connector_;
  std::shared_ptr<TcpStream> stream_;
  ResponseParser parser_;
  std::string input_;
  HttpResponse response_;
  std::optional<Error> failure_;
  bool done_ = false;
  Instant last_byte_at_{};
};

}  // namespace

Result<HttpResponse> http_call(const Endpoint& server, const HttpCall& call) {
  return Call(server, call).run();
}

}  // namespace baton::net
