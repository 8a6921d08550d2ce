#include "http_connection.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "baton/base/check.h"

#include "http_head.h"

namespace baton::net {
namespace {

/// A pipelining client may be this far ahead; then its next bytes stay in the kernel.
constexpr std::size_t pipeline_bytes = 64 * 1024;

/// Behind bytes that are not read its end cannot be seen, so an answer is pending for it this long
/// at most; then it is given up.
constexpr Duration pipeline_patience = std::chrono::seconds(1);

}  // namespace

HttpConnection::HttpConnection(std::shared_ptr<HttpServerState> server,
                               std::shared_ptr<TcpStream> stream)
    : server_(std::move(server)),
      stream_(std::move(stream)),
      parser_(server_->options.limits),
      phase_since_(monotonic_now()),
      last_read_at_(phase_since_) {}

void HttpConnection::start() {
  server_->add(shared_from_this(), stream_->peer_address());
  ++server_->stats.accepted;
  auto self = shared_from_this();
  stream_->start({[self](std::string_view bytes) { self->on_bytes(bytes); },
                  [self](const std::string&) { self->on_end(); }});
}

void HttpConnection::start_refused(const Error& error) {
  refused_ = true;
  server_->add(shared_from_this(), stream_->peer_address());
  ++server_->stats.refused_connections;
  stream_->start({[](std::string_view) {},
                  [self = shared_from_this()](const std::string&) { self->on_end(); }});
  reply_and_close(error);
}

void HttpConnection::on_bytes(std::string_view bytes) {
  last_read_at_ = monotonic_now();
  input_.append(bytes);
  if (phase_ == Phase::idle || phase_ == Phase::header || phase_ == Phase::body) {
    read_requests();
  }
  adjust_reading();
}

void HttpConnection::adjust_reading() {
  const bool ahead = input_.size() > pipeline_bytes;
  if (ahead == paused_) return;
  paused_ = ahead;
  if (!ahead) return stream_->resume_reading();
  paused_since_ = monotonic_now();
  stream_->pause_reading();
}

void HttpConnection::read_requests() {
  if (phase_ == Phase::idle && !begin_request()) return;
  while (phase_ == Phase::header || phase_ == Phase::body) {
    const Result<std::size_t> used = parser_.feed(input_);
    if (used.has_error()) {
      ++server_->stats.bad_requests;
      return reply_and_close(used.error());
    }
    input_.erase(0, *used);
    if (phase_ == Phase::header && !parser_.header_done()) return;
    if (phase_ == Phase::header && !take_body()) continue;
    if (parser_.done()) return dispatch();
    if (*used == 0 || input_.empty()) return;
  }
}

/// Empty lines between requests are skipped. A first byte that cannot start a method ends the
/// connection at once, not after the header's time.
bool HttpConnection::begin_request() {
  const std::size_t start = input_.find_first_not_of("\r\n");
  input_.erase(0, std::min(start, input_.size()));
  if (input_.empty()) return false;
  phase_ = Phase::header;
  first_byte_at_ = last_read_at_;
  // The first header's time runs from accept, as begun by the constructor.
  if (turn_ > 0) phase_since_ = last_read_at_;
  const char first = input_.front();
  if ((first >= 'A' && first <= 'Z') || (first >= 'a' && first <= 'z')) return true;
  ++server_->stats.bad_requests;
  reply_and_close(Error(Reason::invalid_request, "this is not HTTP"));
  return false;
}

/// Header complete. False when body bytes at hand have to be parsed before anything is decided.
bool HttpConnection::take_body() {
  phase_ = Phase::body;
  phase_since_ = monotonic_now();
  if (parser_.done()) return true;
  if (!input_.empty()) return false;
  if (parser_.expects_continue() && !parser_.is_http_1_0()) {
    stream_->queue("HTTP/1.1 100 Continue\r\n\r\n");
    stream_->flush();
  }
  return true;
}

void HttpConnection::dispatch() {
  const HttpLimits& limits = server_->options.limits;
  ++server_->stats.requests;
  ++turn_;
  keep_alive_ = parser_.keep_alive() && turn_ < limits.keep_alive_requests;
  http_1_0_ = parser_.is_http_1_0();
  HttpRequest request = parser_.take();
  request.peer = stream_->peer();
  request.first_byte_at = first_byte_at_;
  request.received_at = last_read_at_;
  head_only_ = request.method == "HEAD";
  phase_ = Phase::handling;
  phase_since_ = monotonic_now();
  server_->options.handler(std::move(request), make_responder(shared_from_this(), turn_));
}

void HttpConnection::queue_head(int status, const HttpHeaders& headers,
                                const std::string& framing) {
  std::string head = fmt::format("HTTP/1.1 {} {}\r\n", status, status_text(status));
  for (const auto& [name, value] : headers) append_header(head, name, value);
  append_header(head, "Date", http_date());
  if (server_->draining) keep_alive_ = false;
  if (!keep_alive_) append_header(head, "Connection", "close");
  head.append(framing).append("\r\n");
  stream_->queue(head);
}

void HttpConnection::send(int status, const HttpHeaders& headers, std::string_view body,
                          TcpStream::Written written) {
  BATON_CHECK(phase_ == Phase::handling);
  const bool bodiless = status == 204 || status == 304;
  queue_head(status, headers,
             bodiless ? std::string() : fmt::format("Content-Length: {}\r\n", body.size()));
  if (!head_only_ && !bodiless) stream_->queue(body);
  complete(std::move(written));
}

void HttpConnection::start_stream(int status, const HttpHeaders& headers) {
  BATON_CHECK(phase_ == Phase::handling);
  phase_ = Phase::streaming;
  chunked_ = !http_1_0_;
  queue_head(status, headers, chunked_ ? "Transfer-Encoding: chunked\r\n" : "");
  stream_->flush();
}

bool HttpConnection::write(std::string_view chunk, TcpStream::Written written) {
  BATON_CHECK(phase_ == Phase::streaming);
  if (!stream_->open()) return false;
  // A chunk of size zero would end the stream.
  if (!chunk.empty() && !head_only_) {
    if (chunked_) stream_->queue(fmt::format("{:x}\r\n", chunk.size()));
    stream_->queue(chunk);
    if (chunked_) stream_->queue("\r\n");
  }
  stream_->mark(std::move(written));
  stream_->flush();
  if (stream_->unsent_bytes() > server_->options.limits.stream_buffer_bytes) give_up();
  return phase_ == Phase::streaming && stream_->open();
}

void HttpConnection::finish(TcpStream::Written written) {
  BATON_CHECK(phase_ == Phase::streaming);
  if (chunked_ && !head_only_) stream_->queue("0\r\n\r\n");
  complete(std::move(written));
}

/// The handler's part is over; the rest is the kernel's and the client's.
void HttpConnection::complete(TcpStream::Written written) {
  phase_ = Phase::flushing;
  phase_since_ = monotonic_now();
  on_disconnect_ = nullptr;
  stream_->mark(std::move(written));
  // The stream forgets its marks before it lets go of this connection.
  stream_->mark([this](Instant) { answer_sent(); });
  stream_->flush();
}

void HttpConnection::answer_sent() {
  phase_since_ = monotonic_now();
  if (!keep_alive_) {
    phase_ = Phase::lingering;
    stream_->close_gracefully(Duration::max(), server_->options.limits.stop_grace);
    return;
  }
  phase_ = Phase::idle;
  if (input_.empty()) return;
  // Not from here: a handler that answers at once would nest one call per pipelined request.
  server_->loop.post([self = shared_from_this()] {
    if (self->phase_ != Phase::idle) return;
    self->read_requests();
    self->adjust_reading();
  });
}

void HttpConnection::reply_and_close(const Error& error) {
  keep_alive_ = false;
  head_only_ = false;
  phase_ = Phase::handling;
  const int status = info(error.reason()).http_status;
  HttpHeaders headers = {{"Content-Type", "application/json"}};
  if (status == 429 || status == 503) headers.emplace_back("Retry-After", "1");
  send(status, headers, server_->options.error_body(error), nullptr);
}

void HttpConnection::abort() {
  on_disconnect_ = nullptr;
  close();
}

void HttpConnection::abandon() {
  if (phase_ == Phase::streaming) return abort();
  reply_and_close(Error(Reason::internal, "the request was dropped without an answer"));
}

void HttpConnection::close() {
  on_disconnect_ = nullptr;
  phase_ = Phase::closed;
  stream_->close();
  server_->remove(shared_from_this(), stream_->peer_address());
}

void HttpConnection::give_up() {
  ++server_->stats.given_up;
  stream_->close();
  server_->loop.post([self = shared_from_this()] { self->on_end(); });
}

void HttpConnection::on_end() {
  if (phase_ == Phase::closed) return;
  const bool interrupted = answering();
  if (interrupted) disconnected_turn_ = turn_;
  phase_ = Phase::closed;
  server_->remove(shared_from_this(), stream_->peer_address());
  if (!interrupted) return;
  ++server_->stats.disconnects;
  if (const auto fn = std::exchange(on_disconnect_, nullptr)) fn();
}

void HttpConnection::check_deadlines(Instant now) {
  if (paused_ && answering() && now - std::max(paused_since_, phase_since_) > pipeline_patience) {
    return give_up();
  }
  const HttpLimits& limits = server_->options.limits;
  if (stream_->unsent_bytes() > 0 && now - stream_->last_progress() > limits.write_stall_time) {
    return give_up();
  }
  if (phase_ == Phase::idle) {
    // A new connection has the header's time to show a first byte, a proven one may rest.
    const Duration rest = turn_ == 0 ? limits.header_time : limits.keep_alive_time;
    if (now - phase_since_ > rest) close();
    return;
  }
  if (const char* what = overdue(now)) {
    ++server_->stats.timeouts;
    reply_and_close(Error(Reason::request_timeout, what));
  }
}

const char* HttpConnection::overdue(Instant now) const {
  const HttpLimits& limits = server_->options.limits;
  const Duration age = now - phase_since_;
  if (phase_ == Phase::header) {
    return age > limits.header_time ? "the header took too long" : nullptr;
  }
  if (phase_ != Phase::body) return nullptr;
  if (age > limits.body_time) return "the body took too long";
  if (now - last_read_at_ > limits.body_idle_time) return "no byte of the body came for too long";
  const double paid_s = static_cast<double>(parser_.body_bytes()) /
                        static_cast<double>(std::max<std::size_t>(1, limits.body_min_bytes_per_s));
  if (seconds(age) > seconds(limits.body_idle_time) + paid_s) return "the body comes too slowly";
  return nullptr;
}

}  // namespace baton::net
