#include "baton/net/io/frame_link.h"

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "baton/base/check.h"

#include "tcp.h"

namespace baton::net {
namespace {

/// For the last frames of a link that its owner closes ("refused, because …").
constexpr Duration farewell_time = std::chrono::seconds(1);

class FrameLink final : public FrameConnection, public std::enable_shared_from_this<FrameLink> {
 public:
  FrameLink(EventLoop& loop, TcpSocket socket, const FrameLimits& limits)
      : loop_(loop),
        limits_(limits),
        stream_(std::make_shared<TcpStream>(loop, std::move(socket))),
        decoder_(limits.frame_bytes) {
    stream_->set_dead_peer_time(limits.dead_peer_time);
  }

  void start() {
    if (!open_) return;
    auto self = shared_from_this();
    stream_->start(
        {[self](std::string_view bytes) { self->on_bytes(bytes); },
         [self](const std::string& why) { self->fail(Error(Reason::transport_failed, why)); }});
  }

  /// For an accepted link: `on_proven` at its first frame, `on_gone` when it is closed or failed.
  void expect_hello(std::function<void()> on_proven, std::function<void()> on_gone) {
    on_proven_ = std::move(on_proven);
    on_gone_ = std::move(on_gone);
    hello_ = loop_.schedule_after(limits_.hello_time, [weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->fail_silent();
    });
  }

  void fail_silent() { fail(Error(Reason::deadline_exceeded, "no frame came after connecting")); }

  bool send(std::string_view payload) override {
    BATON_CHECK(loop_.on_loop_thread() && payload.size() <= limits_.frame_bytes);
    if (!open_) return false;
    const std::size_t frame_bytes = frame_header_bytes + payload.size();
    if (stream_->unsent_marks() >= limits_.outbox_frames ||
        stream_->unsent_bytes() + frame_bytes > limits_.outbox_bytes) {
      fail(
          Error(Reason::overloaded, fmt::format("the outbox is full: {} frames, {} bytes",
                                                stream_->unsent_marks(), stream_->unsent_bytes())));
      return false;
    }
    scratch_.clear();
    append_frame(scratch_, payload);
    stream_->queue(scratch_);
    stream_->mark(nullptr);
    stream_->flush_later();
    return true;
  }

  void close() override {
    BATON_CHECK(loop_.on_loop_thread());
    on_closed_ = nullptr;  // also when the link has failed and that was not told yet
    if (!std::exchange(open_, false)) return;
    stream_->close_gracefully(farewell_time, farewell_time);
    forget();
  }

  /// At once, without the last frames; for the server's end.
  void drop() {
    on_closed_ = nullptr;
    if (!std::exchange(open_, false)) return;
    stream_->close();
    forget();
  }

  void on_frame(std::function<void(std::string_view)> fn) override { on_frame_ = std::move(fn); }
  void on_closed(std::function<void(Error)> fn) override { on_closed_ = std::move(fn); }
  bool open() const override { return open_; }
  const std::string& peer() const override { return stream_->peer(); }
  std::size_t outbox_frames() const override { return stream_->unsent_marks(); }
  std::size_t outbox_bytes() const override { return stream_->unsent_bytes(); }

 private:
  void on_bytes(std::string_view bytes) {
    delivering_ = true;
    decoder_.push(bytes);
    while (open_) {
      const auto frame = decoder_.next();
      if (frame.has_error()) {
        fail(frame.error());
        break;
      }
      if (!*frame) break;
      if (const auto proven = std::exchange(on_proven_, nullptr)) proven();
      hello_.cancel();
      if (on_frame_) on_frame_(**frame);
    }
    delivering_ = false;
    if (!open_) on_frame_ = nullptr;
  }

  void fail(Error error) {
    if (!std::exchange(open_, false)) return;
    stream_->close();
    loop_.post([self = shared_from_this(), error = std::move(error)] {
      if (const auto fn = std::exchange(self->on_closed_, nullptr)) fn(error);
    });
    forget();
  }

  void forget() {
    hello_.cancel();
    on_proven_ = nullptr;
    // The frame callback may be what is running.
    if (!delivering_) on_frame_ = nullptr;
    if (const auto gone = std::exchange(on_gone_, nullptr)) gone();
  }

  EventLoop& loop_;
  const FrameLimits limits_;
  const std::shared_ptr<TcpStream> stream_;
  FrameDecoder decoder_;
  std::string scratch_;
  Timer hello_;
  bool open_ = true;
  bool delivering_ = false;
  std::function<void(std::string_view)> on_frame_;
  std::function<void(Error)> on_closed_;
  std::function<void()> on_proven_;
  std::function<void()> on_gone_;
};

}  // namespace

class FrameServer::Impl {
 public:
  Impl(EventLoop& loop, const FrameLimits& limits, OnAccept on_accept)
      : loop_(loop), limits_(limits), on_accept_(std::move(on_accept)) {}

  Result<void> open(const Endpoint& endpoint) {
    BATON_ASSIGN(acceptor_, TcpAcceptor::open(loop_, endpoint, [this](TcpSocket socket) {
                   accept(std::move(socket));
                 }));
    return ok();
  }

  void close() {
    if (acceptor_) acceptor_->close();
    silent_.clear();
    for (const auto& [number, link] : std::exchange(links_, {})) link->drop();
  }

  const Endpoint& endpoint() const { return acceptor_->endpoint(); }
  std::size_t size() const { return links_.size(); }

 private:
  void accept(TcpSocket socket) {
    if (links_.size() >= limits_.connections) return;  // the socket closes with its scope
    // A crowd of silent connections must not keep a real peer out.
    if (silent_.size() >= limits_.silent_connections) {
      const auto oldest = links_.at(*silent_.begin());
      oldest->fail_silent();
    }
    const std::uint64_t number = next_number_++;
    auto link = std::make_shared<FrameLink>(loop_, std::move(socket), limits_);
    links_.emplace(number, link);
    silent_.insert(number);
    link->expect_hello([this, number] { silent_.erase(number); },
                       [this, number] {
                         silent_.erase(number);
                         links_.erase(number);
                       });
    on_accept_(link);
    link->start();
  }

  EventLoop& loop_;
  const FrameLimits limits_;
  const OnAccept on_accept_;
  std::shared_ptr<TcpAcceptor> acceptor_;
  std::uint64_t next_number_ = 0;
  std::map<std::uint64_t, std::shared_ptr<FrameLink>> links_;
  std::set<std::uint64_t> silent_;  ///< numbers of links without a frame yet, oldest first
};

FrameServer::FrameServer(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

Result<std::unique_ptr<FrameServer>> FrameServer::listen(EventLoop& loop, const Endpoint& endpoint,
                                                         const FrameLimits& limits,
                                                         OnAccept on_accept) {
  BATON_CHECK(loop.on_loop_thread() && on_accept);
  auto impl = std::make_shared<Impl>(loop, limits, std::move(on_accept));
  BATON_TRY(impl->open(endpoint));
  return std::unique_ptr<FrameServer>(new FrameServer(std::move(impl)));
}

FrameServer::~FrameServer() { impl_->close(); }

const Endpoint& FrameServer::endpoint() const { return impl_->endpoint(); }

std::size_t FrameServer::open_connections() const { return impl_->size(); }

class FrameClient::Impl : public std::enable_shared_from_this<FrameClient::Impl> {
 public:
  Impl(EventLoop& loop, const FrameLimits& limits) : loop_(loop), limits_(limits) {}

  void connect(const Endpoint& server, Duration deadline, OnConnect on_connect) {
    auto attempt = std::make_shared<TcpConnector>(loop_);
    attempts_.insert(attempt);
    attempt->start(server, deadline,
                   [this, attempt = attempt.get(),
                    on_connect = std::move(on_connect)](Result<TcpSocket> socket) {
                     const auto keep = shared_from_this();
                     forget(attempt);
                     if (socket.has_error()) return on_connect(socket.error());
                     auto link = std::make_shared<FrameLink>(loop_, std::move(*socket), limits_);
                     on_connect(std::shared_ptr<FrameConnection>(link));
                     link->start();
                   });
  }

  void cancel_all() {
    for (const auto& attempt : std::exchange(attempts_, {})) attempt->cancel();
  }

 private:
  void forget(const TcpConnector* attempt) {
    std::erase_if(attempts_, [attempt](const auto& held) { return held.get() == attempt; });
  }

  EventLoop& loop_;
  const FrameLimits limits_;
  std::set<std::shared_ptr<TcpConnector>> attempts_;
};

FrameClient::FrameClient(EventLoop& loop, FrameLimits limits)
    : impl_(std::make_shared<Impl>(loop, limits)) {}

FrameClient::~FrameClient() { impl_->cancel_all(); }

void FrameClient::connect(const Endpoint& server, Duration deadline, OnConnect on_connect) {
  impl_->connect(server, deadline, std::move(on_connect));
}

}  // namespace baton::net
