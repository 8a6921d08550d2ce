#include "baton/net/io/http_server.h"

#include <algorithm>
#include <atomic>
#include <utility>
#include <vector>

#include "baton/base/check.h"

#include "http_connection.h"
#include "tcp.h"

namespace baton::net {
namespace {

/// Connections over the limit that may be told so at one time; the next ones are just closed.
constexpr std::size_t refusals_at_once = 64;

class Responder final : public HttpResponder {
 public:
  Responder(std::shared_ptr<HttpConnection> connection, std::uint64_t turn)
      : loop_(connection->loop()), connection_(std::move(connection)), turn_(turn) {}

  /// The last reference may be dropped on a worker thread that carried the request; the connection
  /// is touched, and freed, on the loop's thread only.
  ~Responder() override {
    if (complete_) return;
    loop_.post([connection = std::move(connection_), turn = turn_] {
      if (connection->is_turn(turn)) connection->abandon();
    });
  }

  void send(int status, const HttpHeaders& headers, std::string body, Written written) override {
    if (!live()) return;
    const auto connection = std::move(connection_);
    complete_ = true;
    connection->send(status, headers, body, std::move(written));
  }

  void start_stream(int status, const HttpHeaders& headers) override {
    if (live()) connection_->start_stream(status, headers);
  }

  bool write(std::string_view chunk, Written written) override {
    return live() && connection_->write(chunk, std::move(written));
  }

  void finish(Written written) override {
    if (!live()) return;
    const auto connection = std::move(connection_);
    complete_ = true;
    connection->finish(std::move(written));
  }

  void abort() override {
    if (!live()) return;
    const auto connection = std::move(connection_);
    complete_ = true;
    connection->abort();
  }

  void on_disconnect(std::function<void()> fn) override {
    BATON_CHECK(loop_.on_loop_thread());
    if (complete_) return;
    if (connection_->is_turn(turn_)) return connection_->on_disconnect(std::move(fn));
    if (connection_->disconnected(turn_)) loop_.post(std::move(fn));
  }

  bool open() const override { return live() && connection_->connected(); }

  std::size_t buffered_bytes() const override { return live() ? connection_->buffered_bytes() : 0; }

 private:
  bool live() const {
    BATON_CHECK(loop_.on_loop_thread());
    return !complete_ && connection_->is_turn(turn_);
  }

  EventLoop& loop_;
  std::shared_ptr<HttpConnection> connection_;  ///< null once complete
  const std::uint64_t turn_;
  bool complete_ = false;
};

}  // namespace

std::shared_ptr<HttpResponder> make_responder(std::shared_ptr<HttpConnection> connection,
                                              std::uint64_t turn) {
  return std::make_shared<Responder>(std::move(connection), turn);
}

void HttpServerState::add(const std::shared_ptr<HttpConnection>& connection,
                          const std::string& address) {
  connections.insert(connection);
  if (connection->refused()) {
    ++refused_open;
  } else {
    ++per_address[address];
  }
  stats.open_connections = connections.size();
  if (sweep.pending()) return;
  const HttpLimits& limits = options.limits;
  const Duration shortest = std::min({limits.header_time, limits.body_idle_time, limits.body_time,
                                      limits.keep_alive_time, limits.write_stall_time});
  const Duration interval = std::clamp<Duration>(shortest / 8, std::chrono::milliseconds(5),
                                                 std::chrono::milliseconds(250));
  sweep = loop.schedule_every(interval, [this] { sweep_now(); });
}

void HttpServerState::remove(const std::shared_ptr<HttpConnection>& connection,
                             const std::string& address) {
  if (connections.erase(connection) == 0) return;
  if (connection->refused()) {
    --refused_open;
  } else if (--per_address[address] == 0) {
    per_address.erase(address);
  }
  stats.open_connections = connections.size();
  // Without connections there is nothing to wake up for.
  if (connections.empty()) sweep.cancel();
}

void HttpServerState::sweep_now() {
  const Instant now = monotonic_now();
  // A connection that ends here leaves the set.
  const std::vector<std::shared_ptr<HttpConnection>> all(connections.begin(), connections.end());
  for (const auto& connection : all) connection->check_deadlines(now);
}

class HttpServer::Impl {
 public:
  Impl(EventLoop& loop, Options options) : state_(std::make_shared<HttpServerState>(loop)) {
    state_->options = std::move(options);
  }

  Result<void> open() {
    BATON_ASSIGN(acceptor_,
                 TcpAcceptor::open(state_->loop, state_->options.endpoint,
                                   [this](TcpSocket socket) { accept(std::move(socket)); }));
    return ok();
  }

  void close() {
    stop_accepting();
    const auto all = std::move(state_->connections);
    state_->connections.clear();
    state_->sweep.cancel();
    for (const auto& connection : all) connection->close();
    // Responders keep the state; what it refers to may be gone.
    state_->options.handler = nullptr;
  }

  void drain() {
    state_->draining = true;
    stop_accepting();
    const std::vector<std::shared_ptr<HttpConnection>> all(state_->connections.begin(),
                                                           state_->connections.end());
    for (const auto& connection : all) {
      if (connection->idle()) connection->close();
    }
  }

  const Endpoint& endpoint() const { return endpoint_; }
  const HttpServerStats& stats() const { return state_->stats; }

  void remember_endpoint() { endpoint_ = acceptor_->endpoint(); }

 private:
  void stop_accepting() {
    if (acceptor_) acceptor_->close();
  }

  void accept(TcpSocket socket) {
    auto stream = std::make_shared<TcpStream>(state_->loop, std::move(socket));
    const HttpLimits& limits = state_->options.limits;
    const auto same_address = state_->per_address.find(stream->peer_address());
    const std::size_t from_here =
        same_address == state_->per_address.end() ? 0 : same_address->second;
    auto connection = std::make_shared<HttpConnection>(state_, stream);
    if (state_->connections.size() - state_->refused_open >= limits.connections) {
      refuse(connection, *stream, Error(Reason::overloaded, "too many connections"));
    } else if (limits.connections_per_address > 0 && from_here >= limits.connections_per_address) {
      refuse(connection, *stream,
             Error(Reason::rate_limited, "too many connections from this address"));
    } else {
      connection->start();
    }
  }

  void refuse(const std::shared_ptr<HttpConnection>& connection, TcpStream& stream,
              const Error& error) {
    if (state_->refused_open < refusals_at_once) return connection->start_refused(error);
    ++state_->stats.refused_connections;
    stream.close();
  }

  std::shared_ptr<HttpServerState> state_;
  std::shared_ptr<TcpAcceptor> acceptor_;
  Endpoint endpoint_;
};

HttpServer::HttpServer(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

Result<std::unique_ptr<HttpServer>> HttpServer::listen(EventLoop& loop, Options options) {
  BATON_CHECK(loop.on_loop_thread() && options.handler && options.error_body);
  auto impl = std::make_shared<Impl>(loop, std::move(options));
  BATON_TRY(impl->open());
  impl->remember_endpoint();
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

HttpServer::~HttpServer() { impl_->close(); }

const Endpoint& HttpServer::endpoint() const { return impl_->endpoint(); }

void HttpServer::drain() { impl_->drain(); }

HttpServerStats HttpServer::stats() const { return impl_->stats(); }

}  // namespace baton::net
