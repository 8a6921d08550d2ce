// TCP for the servers and clients of this library: accepting, connecting, and one connection as a
// queue of bytes out and a callback of bytes in. Encryption will stand between this and the codecs:
// bytes in, bytes out. Loop thread only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>

#include "baton/base/endpoint.h"
#include "baton/base/result.h"
#include "baton/base/time.h"
#include "baton/net/io/event_loop.h"

namespace baton::net {

using TcpSocket = boost::asio::ip::tcp::socket;

class TcpStream : public std::enable_shared_from_this<TcpStream> {
 public:
  struct Events {
    std::function<void(std::string_view)> on_bytes;
    /// The peer closed, or the connection broke: called once, never inside a call of ours.
    std::function<void(const std::string& why)> on_end;
  };
  using Written = std::function<void(Instant)>;

  TcpStream(EventLoop& loop, TcpSocket socket);

  /// Begins to read. Until on_end or close() the stream keeps itself alive while it reads.
  void start(Events events);

  /// Reading stops until resume: what comes then stays in the kernel.
  void pause_reading();
  void resume_reading();

  /// Appends bytes to what is to be sent; flush() offers it to the kernel at once, flush_later() at
  /// the end of this turn of the loop.
  void queue(std::string_view bytes);
  /// `written` is called when all that is queued now has been taken by the kernel.
  void mark(Written written);
  void flush();
  void flush_later();

  /// Ends the connection now; on_end is not called any more.
  void close();

  /// Sends what is queued (for at most `flush_time`; Duration::max(): the caller watches it), says
  /// that no more comes, and discards input until the peer closes too, for at most `grace` more, so
  /// that a reset does not overtake the last bytes; then on_end.
  void close_gracefully(Duration flush_time, Duration grace);

  /// An unreachable or silent peer is given up after this time (keep-alive probes, user timeout).
  void set_dead_peer_time(Duration time);

  bool open() const { return open_; }
  const std::string& peer() const { return peer_; }
  const std::string& peer_address() const { return peer_address_; }
  std::size_t unsent_bytes() const { return out_.size() - sent_; }
  std::size_t unsent_marks() const { return marks_.size(); }
  /// When the kernel last took a byte, or when bytes were first queued for it after that.
  Instant last_progress() const { return last_progress_; }

 private:
  /// Keeps a stream alive as long as its read loop runs. The stream's callbacks usually hold its
  /// owner, which holds the stream: when the event loop is destroyed before the connection has
  /// ended, this end of the read loop lets go of them.
  class Alive {
   public:
    explicit Alive(std::shared_ptr<TcpStream> stream) : stream_(std::move(stream)) {}
    Alive(Alive&&) noexcept = default;
    ~Alive() {
      if (stream_) stream_->events_ = {};
    }
    /// The read loop ended by itself.
    std::shared_ptr<TcpStream> release() { return std::move(stream_); }

   private:
    std::shared_ptr<TcpStream> stream_;
  };

  boost::asio::awaitable<void> read_loop(Alive alive);
  void spawn_read_loop();
  void wait_writable();
  void advance(std::size_t bytes);
  void call_marks();
  void fail_later(std::string why);
  void end(const std::string& why);
  void shutdown_when_sent();
  void end_after(Duration time);
  void deliver(std::string_view bytes);

  EventLoop& loop_;
  TcpSocket socket_;
  Events events_;
  std::string peer_;
  std::string peer_address_;

  std::string out_;
  std::size_t sent_ = 0;            ///< bytes of out_ that the kernel has taken
  std::uint64_t queued_total_ = 0;  ///< bytes ever queued; marks are positions in this stream
  std::uint64_t sent_total_ = 0;
  std::deque<std::pair<std::uint64_t, Written>> marks_;
  Instant last_progress_{};
  Timer grace_;
  Duration grace_time_{};

  bool open_ = true;
  bool reading_ = false;  ///< a read loop runs
  bool paused_ = false;
  bool flushing_ = false;
  bool flush_posted_ = false;
  bool waiting_writable_ = false;
  bool closing_ = false;
  bool delivering_ = false;  ///< inside on_bytes, whose function must outlive the call
};

class TcpAcceptor : public std::enable_shared_from_this<TcpAcceptor> {
 public:
  using OnSocket = std::function<void(TcpSocket)>;

  static Result<std::shared_ptr<TcpAcceptor>> open(EventLoop& loop, const Endpoint& endpoint,
                                                   OnSocket on_socket);
  TcpAcceptor(EventLoop& loop, OnSocket on_socket);
  void close();
  const Endpoint& endpoint() const { return endpoint_; }

 private:
  Result<void> bind(const Endpoint& endpoint);
  void accept_next();

  EventLoop& loop_;
  boost::asio::ip::tcp::acceptor acceptor_;
  OnSocket on_socket_;
  Endpoint endpoint_;
  Timer pause_;
};

/// One attempt to connect; the callback comes once, never inside start(), and not after cancel().
class TcpConnector : public std::enable_shared_from_this<TcpConnector> {
 public:
  using OnConnect = std::function<void(Result<TcpSocket>)>;

  explicit TcpConnector(EventLoop& loop);
  void start(const Endpoint& server, Duration deadline, OnConnect on_connect);
  void cancel();

 private:
  void connect(const boost::asio::ip::tcp::resolver::results_type& addresses);
  void finish(Result<TcpSocket> result);
  void fail(Reason reason, std::string_view why);

  EventLoop& loop_;
  boost::asio::ip::tcp::resolver resolver_;
  TcpSocket socket_;
  OnConnect on_connect_;
  std::string name_;
  Timer timer_;
};

}  // namespace baton::net
