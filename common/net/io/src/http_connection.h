// One connection of the HTTP server: requests in, answers out, one at a time, and every deadline on
// the way. Reading goes on while an answer is pending: that is how a client's end is seen.
#pragma once

#include <cstdint>
#include <ctime>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "baton/net/io/http_server.h"

#include "http_parser.h"
#include "tcp.h"

namespace baton::net {

class HttpConnection;

/// What the server and its connections share; connections may outlive the server in responders.
struct HttpServerState {
  explicit HttpServerState(EventLoop& event_loop) : loop(event_loop) {}

  EventLoop& loop;
  HttpServer::Options options;
  HttpServerStats stats;
  bool draining = false;
  std::set<std::shared_ptr<HttpConnection>> connections;
  std::map<std::string, std::size_t> per_address;
  std::size_t refused_open = 0;  ///< of `connections`: being told that there are too many
  Timer sweep;

  void add(const std::shared_ptr<HttpConnection>& connection, const std::string& address);
  void remove(const std::shared_ptr<HttpConnection>& connection, const std::string& address);
  void sweep_now();
};

class HttpConnection : public std::enable_shared_from_this<HttpConnection> {
 public:
  HttpConnection(std::shared_ptr<HttpServerState> server, std::shared_ptr<TcpStream> stream);

  void start();

  /// Answers with the error before anything was asked, and closes.
  void start_refused(const Error& error);

  /// Ends what has waited too long. Called a few times within the shortest limit.
  void check_deadlines(Instant now);

  /// At once and silently; for the server's end.
  void close();

  /// Between two requests.
  bool idle() const { return phase_ == Phase::idle; }
  bool refused() const { return refused_; }

  // For the responder of request number `turn`; a call of an earlier turn does nothing.
  bool is_turn(std::uint64_t turn) const { return turn == turn_ && answering(); }
  EventLoop& loop() { return server_->loop; }
  void send(int status, const HttpHeaders& headers, std::string_view body,
            TcpStream::Written written);
  void start_stream(int status, const HttpHeaders& headers);
  bool write(std::string_view chunk, TcpStream::Written written);
  void finish(TcpStream::Written written);
  void abort();
  void abandon();
  void on_disconnect(std::function<void()> fn) { on_disconnect_ = std::move(fn); }
  bool connected() const { return stream_->open(); }
  bool disconnected(std::uint64_t turn) const { return turn == disconnected_turn_; }
  std::size_t buffered_bytes() const { return stream_->unsent_bytes(); }

 private:
  enum class Phase {
    idle,       ///< nothing of the next request has come
    header,     ///< some of its header has
    body,       ///< header complete, body not
    handling,   ///< with the handler, nothing answered
    streaming,  ///< head of the answer queued
    flushing,   ///< whole answer queued
    lingering,  ///< everything sent; waiting for the client to close
    closed,
  };

  bool answering() const { return phase_ == Phase::handling || phase_ == Phase::streaming; }
  void on_bytes(std::string_view bytes);
  void on_end();
  void adjust_reading();
  void read_requests();
  bool begin_request();
  bool take_body();
  void dispatch();
  void queue_head(int status, const HttpHeaders& headers, const std::string& framing);
  void reply_and_close(const Error& error);
  void complete(TcpStream::Written written);
  void answer_sent();
  void give_up();
  const char* overdue(Instant now) const;

  const std::shared_ptr<HttpServerState> server_;
  const std::shared_ptr<TcpStream> stream_;
  RequestParser parser_;
  std::string input_;  ///< read, not parsed yet; the next requests of a pipelining client

  Phase phase_ = Phase::idle;
  Instant phase_since_{};
  Instant first_byte_at_{};
  Instant last_read_at_{};
  std::uint64_t turn_ = 0;  ///< number of the request in hand, from 1
  std::uint64_t disconnected_turn_ = 0;
  bool keep_alive_ = true;
  bool head_only_ = false;
  bool http_1_0_ = false;
  bool chunked_ = false;
  bool paused_ = false;  ///< too much is pipelined; the rest stays in the kernel
  Instant paused_since_{};
  bool refused_ = false;
  std::function<void()> on_disconnect_;
};

std::shared_ptr<HttpResponder> make_responder(std::shared_ptr<HttpConnection> connection,
                                              std::uint64_t turn);

}  // namespace baton::net
