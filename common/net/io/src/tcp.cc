#include "tcp.h"

#include <algorithm>
#include <chrono>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "event_loop_impl.h"

namespace baton::net {

namespace asio = boost::asio;
using boost::system::error_code;
using tcp = asio::ip::tcp;

namespace {

/// Memory of an emptied outbox that is worth keeping for the next bytes.
constexpr std::size_t kept_capacity_bytes = 64 * 1024;

/// Bytes not sent yet that the kernel takes of one connection. By default it takes megabytes and
/// asks for more only when a third of them is gone: a slow reader would look like a stalled one,
/// and what waits for a stalled one would not be bounded by us.
constexpr int kernel_unsent_bytes = 64 * 1024;

template <typename T>
void set_option(TcpSocket& socket, int level, int name, T value) {
  // Failing options degrade detection of dead peers, nothing else: the caller's deadlines remain.
  ::setsockopt(socket.native_handle(), level, name, &value, sizeof(value));
}

}  // namespace

TcpStream::TcpStream(EventLoop& loop, TcpSocket socket) : loop_(loop), socket_(std::move(socket)) {
  error_code ec;
  socket_.non_blocking(true, ec);
  socket_.set_option(tcp::no_delay(true), ec);
  set_option(socket_, IPPROTO_TCP, TCP_NOTSENT_LOWAT, kernel_unsent_bytes);
  const auto remote = socket_.remote_endpoint(ec);
  if (!ec) {
    peer_address_ = remote.address().to_string();
    peer_ = Endpoint{peer_address_, remote.port()}.to_string();
  }
}

void TcpStream::start(Events events) {
  events_ = std::move(events);
  spawn_read_loop();
}

void TcpStream::spawn_read_loop() {
  if (reading_ || !open_) return;
  reading_ = true;
  asio::co_spawn(socket_.get_executor(), read_loop(Alive(shared_from_this())),
                 [](std::exception_ptr failure) {
                   if (failure) std::rethrow_exception(failure);
                 });
}

asio::awaitable<void> TcpStream::read_loop(Alive alive) {
  auto& scratch = loop_.impl_->scratch;
  while (open_ && !paused_) {
    error_code ec;
    co_await socket_.async_wait(tcp::socket::wait_read,
                                asio::redirect_error(asio::use_awaitable, ec));
    if (!open_ || paused_) break;
    if (ec == asio::error::operation_aborted) continue;  // paused and resumed in the meantime
    std::size_t got = 0;
    if (!ec) got = socket_.read_some(asio::buffer(scratch), ec);
    if (ec == asio::error::would_block || ec == asio::error::interrupted) continue;
    if (ec) {
      end(ec == asio::error::eof ? "the peer closed the connection" : ec.message());
      break;
    }
    deliver(std::string_view(scratch.data(), got));
  }
  reading_ = false;
  const auto self = alive.release();  // until here, this
}

void TcpStream::deliver(std::string_view bytes) {
  if (!events_.on_bytes) return;
  delivering_ = true;
  events_.on_bytes(bytes);
  delivering_ = false;
  // What close() left standing, because the callback that called it was still running.
  if (!open_ || closing_) events_.on_bytes = nullptr;
  if (!open_) events_.on_end = nullptr;
}

void TcpStream::pause_reading() {
  if (std::exchange(paused_, true) || !open_) return;
  // Only the read loop waits cancellably here; a wait for writing is renewed by its handler.
  error_code ec;
  socket_.cancel(ec);
}

void TcpStream::resume_reading() {
  if (!std::exchange(paused_, false)) return;
  // A loop that has not noticed the pause yet goes on by itself.
  spawn_read_loop();
}

void TcpStream::queue(std::string_view bytes) {
  if (!open_ || closing_) return;
  if (unsent_bytes() == 0) last_progress_ = monotonic_now();
  out_.append(bytes);
  queued_total_ += bytes.size();
}

void TcpStream::mark(Written written) {
  if (open_ && !closing_) marks_.emplace_back(queued_total_, std::move(written));
}

void TcpStream::flush_later() {
  if (std::exchange(flush_posted_, true)) return;
  loop_.post([self = shared_from_this()] {
    self->flush_posted_ = false;
    self->flush();
  });
}

void TcpStream::flush() {
  if (flushing_ || waiting_writable_ || !open_) return;
  flushing_ = true;
  while (open_ && unsent_bytes() > 0) {
    error_code ec;
    const std::size_t taken =
        socket_.write_some(asio::buffer(out_.data() + sent_, unsent_bytes()), ec);
    if (ec == asio::error::interrupted) continue;
    if (ec == asio::error::would_block) {
      wait_writable();
      break;
    }
    if (ec) {
      fail_later(ec.message());
      break;
    }
    advance(taken);
  }
  call_marks();
  flushing_ = false;
  if (closing_) shutdown_when_sent();
}

void TcpStream::wait_writable() {
  waiting_writable_ = true;
  socket_.async_wait(tcp::socket::wait_write, [self = shared_from_this()](const error_code&) {
    self->waiting_writable_ = false;
    self->flush();
  });
}

void TcpStream::advance(std::size_t bytes) {
  last_progress_ = monotonic_now();
  sent_ += bytes;
  sent_total_ += bytes;
  if (sent_ == out_.size()) {
    out_.clear();
    sent_ = 0;
    if (out_.capacity() > kept_capacity_bytes) out_.shrink_to_fit();
  } else if (sent_ > kept_capacity_bytes && sent_ > out_.size() / 2) {
    out_.erase(0, sent_);
    sent_ = 0;
  }
  call_marks();
}

void TcpStream::call_marks() {
  while (!marks_.empty() && marks_.front().first <= sent_total_) {
    const Written written = std::move(marks_.front().second);
    marks_.pop_front();
    if (written) written(last_progress_);
  }
}

void TcpStream::close() {
  if (!std::exchange(open_, false)) return;
  if (!delivering_) events_ = {};
  marks_.clear();
  out_.clear();
  sent_ = 0;
  grace_.cancel();
  error_code ec;
  socket_.close(ec);
}

void TcpStream::fail_later(std::string why) {
  loop_.post([self = shared_from_this(), why = std::move(why)] { self->end(why); });
}

void TcpStream::end(const std::string& why) {
  if (!open_) return;
  // The callback may hold the last reference to its own captures' owner: it is called from here.
  const auto on_end = std::move(events_.on_end);
  close();
  if (on_end) on_end(why);
}

void TcpStream::close_gracefully(Duration flush_time, Duration grace) {
  if (!open_ || closing_) return;
  closing_ = true;
  paused_ = false;
  grace_time_ = grace;
  if (!delivering_) events_.on_bytes = nullptr;
  if (flush_time != Duration::max()) end_after(flush_time);
  spawn_read_loop();
  flush();
}

void TcpStream::end_after(Duration time) {
  // The read loop holds the stream until then.
  grace_ = loop_.schedule_after(time, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->end("closed");
  });
}

void TcpStream::shutdown_when_sent() {
  if (!open_ || unsent_bytes() > 0) return;
  error_code ec;
  socket_.shutdown(tcp::socket::shutdown_send, ec);
  end_after(grace_time_);
}

void TcpStream::set_dead_peer_time(Duration time) {
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(time).count();
  const auto probe_s = static_cast<int>(std::max<std::int64_t>(1, ms / 3000));
  set_option(socket_, IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<unsigned>(ms));
  set_option(socket_, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(socket_, IPPROTO_TCP, TCP_KEEPIDLE, probe_s);
  set_option(socket_, IPPROTO_TCP, TCP_KEEPINTVL, probe_s);
  set_option(socket_, IPPROTO_TCP, TCP_KEEPCNT, 2);
}

TcpAcceptor::TcpAcceptor(EventLoop& loop, OnSocket on_socket)
    : loop_(loop), acceptor_(loop.context()), on_socket_(std::move(on_socket)) {}

Result<std::shared_ptr<TcpAcceptor>> TcpAcceptor::open(EventLoop& loop, const Endpoint& endpoint,
                                                       OnSocket on_socket) {
  auto acceptor = std::make_shared<TcpAcceptor>(loop, std::move(on_socket));
  BATON_TRY(acceptor->bind(endpoint));
  acceptor->accept_next();
  return acceptor;
}

Result<void> TcpAcceptor::bind(const Endpoint& endpoint) {
  error_code ec;
  const std::string host = endpoint.host == "localhost" ? "127.0.0.1" : endpoint.host;
  const tcp::endpoint wanted(asio::ip::make_address(host, ec), endpoint.port);
  if (!ec) acceptor_.open(wanted.protocol(), ec);
  if (!ec) acceptor_.set_option(tcp::acceptor::reuse_address(true), ec);
  if (!ec) acceptor_.bind(wanted, ec);
  if (!ec) acceptor_.listen(tcp::acceptor::max_listen_connections, ec);
  if (ec) {
    return Error(Reason::io_error,
                 fmt::format("cannot listen on {}: {}", endpoint.to_string(), ec.message()));
  }
  endpoint_ = {host, acceptor_.local_endpoint(ec).port()};
  return ok();
}

void TcpAcceptor::accept_next() {
  acceptor_.async_accept([self = shared_from_this()](const error_code& ec, TcpSocket socket) {
    if (!self->acceptor_.is_open()) return;
    if (!ec) {
      self->on_socket_(std::move(socket));
    } else if (ec != asio::error::connection_aborted) {
      // Out of descriptors or memory: the condition lasts, so asking again at once would spin.
      self->pause_ = self->loop_.schedule_after(
          std::chrono::milliseconds(100), [acceptor = self.get()] { acceptor->accept_next(); });
      return;
    }
    if (self->acceptor_.is_open()) self->accept_next();
  });
}

void TcpAcceptor::close() {
  pause_.cancel();
  error_code ec;
  acceptor_.close(ec);
}

TcpConnector::TcpConnector(EventLoop& loop)
    : loop_(loop), resolver_(loop.context()), socket_(loop.context()) {}

void TcpConnector::start(const Endpoint& server, Duration deadline, OnConnect on_connect) {
  on_connect_ = std::move(on_connect);
  name_ = server.to_string();
  auto self = shared_from_this();
  timer_ = loop_.schedule_after(deadline, [weak = weak_from_this()] {
    if (const auto held = weak.lock()) {
      held->fail(Reason::deadline_exceeded, "the deadline has passed");
    }
  });
  error_code ec;
  const auto address = asio::ip::make_address(server.host, ec);
  if (!ec) {
    // A literal needs no resolver, and so no thread of its own.
    const tcp::endpoint endpoint(address, server.port);
    connect(tcp::resolver::results_type::create(endpoint, server.host, ""));
    return;
  }
  resolver_.async_resolve(
      server.host, std::to_string(server.port),
      [self](const error_code& failure, const tcp::resolver::results_type& addresses) {
        if (failure) return self->fail(Reason::transport_failed, failure.message());
        if (self->on_connect_) self->connect(addresses);
      });
}

void TcpConnector::connect(const tcp::resolver::results_type& addresses) {
  asio::async_connect(socket_, addresses,
                      [self = shared_from_this()](const error_code& ec, const tcp::endpoint&) {
                        if (ec) return self->fail(Reason::transport_failed, ec.message());
                        self->finish(std::move(self->socket_));
                      });
}

void TcpConnector::cancel() {
  on_connect_ = nullptr;
  timer_.cancel();
  resolver_.cancel();
  error_code ec;
  socket_.close(ec);
}

void TcpConnector::finish(Result<TcpSocket> result) {
  if (!on_connect_) return;
  const auto on_connect = std::move(on_connect_);
  cancel();
  on_connect(std::move(result));
}

void TcpConnector::fail(Reason reason, std::string_view why) {
  finish(Error(reason, fmt::format("cannot connect to {}: {}", name_, why)));
}

}  // namespace baton::net
