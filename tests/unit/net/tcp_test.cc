// One TCP connection by itself: its deadlines, its notion of progress, what it asks of the kernel.
#include "tcp.h"

#include <optional>
#include <vector>

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "loop_thread.h"
#include "raw_client.h"

namespace baton::net::testing {
namespace {

/// An accepted connection of a raw client; everything of it is touched on the loop's thread.
class TcpTest : public ::testing::Test {
 protected:
  ~TcpTest() override {
    thread_.on_loop([this] {
      for (auto& each : streams_) each->close();
      streams_.clear();
      if (acceptor_) acceptor_->close();
    });
  }

  void listen() {
    thread_.on_loop([this] {
      acceptor_ =
          TcpAcceptor::open(thread_.loop(), {}, [this](TcpSocket socket) {
            descriptor_ = socket.native_handle();
            streams_.push_back(std::make_shared<TcpStream>(thread_.loop(), std::move(socket)));
            streams_.back()->start(
                {[](std::string_view) {}, [this](const std::string& why) { ended_ = why; }});
          }).value();
    });
  }
  /// The client, once the server has its end.
  RawClient connect(int receive_buffer_bytes = 0) {
    RawClient client(acceptor_->endpoint(), receive_buffer_bytes);
    EXPECT_TRUE(thread_.wait_until([this] { return streams_.size() == 1; }));
    return client;
  }
  template <typename Fn>
  auto with_stream(Fn fn) {
    return thread_.on_loop([&] { return fn(*streams_.back()); });
  }
  int option(int level, int name) const {
    int value = 0;
    socklen_t size = sizeof(value);
    EXPECT_EQ(::getsockopt(descriptor_, level, name, &value, &size), 0);
    return value;
  }
  /// More than the kernel takes of a connection that nobody reads.
  static constexpr std::size_t much_bytes = 16 * 1024 * 1024;
  void queue_much() {
    with_stream([](TcpStream& stream) {
      stream.queue(std::string(much_bytes, 'x'));
      stream.flush();
    });
  }

  LoopThread thread_;
  std::shared_ptr<TcpAcceptor> acceptor_;
  std::vector<std::shared_ptr<TcpStream>> streams_;
  int descriptor_ = -1;
  std::optional<std::string> ended_;
};

TEST_F(TcpTest, TheKernelIsAskedToGiveUpASilentPeer) {
  listen();
  RawClient client = connect();
  with_stream([](TcpStream& stream) { stream.set_dead_peer_time(5s); });
  EXPECT_EQ(option(IPPROTO_TCP, TCP_USER_TIMEOUT), 5000);
  EXPECT_EQ(option(SOL_SOCKET, SO_KEEPALIVE), 1);
  // The first probe and those that follow fit into the time.
  EXPECT_LE(option(IPPROTO_TCP, TCP_KEEPIDLE) +
                option(IPPROTO_TCP, TCP_KEEPINTVL) * option(IPPROTO_TCP, TCP_KEEPCNT),
            5);
}

TEST_F(TcpTest, SmallMessagesLeaveAtOnceAndTheKernelTakesNoMoreThanItCanSend) {
  listen();
  RawClient client = connect();
  EXPECT_EQ(option(IPPROTO_TCP, TCP_NODELAY), 1);
  EXPECT_EQ(option(IPPROTO_TCP, TCP_NOTSENT_LOWAT), 64 * 1024);
}

TEST_F(TcpTest, WhatIsQueuedAfterARestIsNotLateAlready) {
  listen();
  RawClient client = connect(4096);
  with_stream([](TcpStream& stream) {
    stream.queue("x");
    stream.flush();
  });
  std::this_thread::sleep_for(20ms);
  const Instant before = monotonic_now();
  queue_much();
  with_stream([&](TcpStream& stream) {
    EXPECT_GT(stream.unsent_bytes(), 0U);
    EXPECT_GE(stream.last_progress(), before);
  });
}

TEST_F(TcpTest, QueueingMoreIsNoProgress) {
  listen();
  RawClient client = connect(4096);
  queue_much();
  // Until the kernel takes no more: the receiver's window is full.
  Instant last{};
  ASSERT_TRUE(thread_.wait_until([&] {
    const bool still = streams_.back()->last_progress() == last;
    last = streams_.back()->last_progress();
    return still;
  }));
  const Instant stalled = with_stream([](TcpStream& stream) { return stream.last_progress(); });
  with_stream([](TcpStream& stream) { stream.queue("more"); });
  EXPECT_EQ(with_stream([](TcpStream& stream) { return stream.last_progress(); }), stalled);
}

TEST_F(TcpTest, AGracefulEndWaitsForTheLastBytesOnlySoLong) {
  listen();
  RawClient client = connect(4096);
  queue_much();
  with_stream([](TcpStream& stream) { stream.close_gracefully(50ms, 10s); });
  EXPECT_TRUE(thread_.wait_until([&] { return ended_.has_value(); }));
  EXPECT_LT(client.read_all().size(), much_bytes);
}

TEST_F(TcpTest, AGracefulEndSendsEverythingAndWaitsForThePeersEnd) {
  listen();
  RawClient client = connect();
  queue_much();
  with_stream([](TcpStream& stream) { stream.close_gracefully(Duration::max(), 50ms); });
  EXPECT_EQ(client.read_all().size(), much_bytes);
  EXPECT_TRUE(client.closed());
  // The client does not close its side: after the grace the connection ends all the same.
  EXPECT_TRUE(thread_.wait_until([&] { return ended_.has_value(); }));
}

/// A listener whose queue is full answers nobody: connecting to it takes for ever.
class FullListener {
 public:
  FullListener() : listener_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(::bind(listener_, generic, sizeof(address)), 0);
    EXPECT_EQ(::listen(listener_, 0), 0);
    socklen_t size = sizeof(address);
    EXPECT_EQ(::getsockname(listener_, generic, &size), 0);
    endpoint = {"127.0.0.1", ntohs(address.sin_port)};
    for (int& each : waiting_) {
      each = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
      static_cast<void>(::connect(each, generic, sizeof(address)));
    }
  }
  ~FullListener() {
    for (int each : waiting_) ::close(each);
    ::close(listener_);
  }
  FullListener(const FullListener&) = delete;
  FullListener& operator=(const FullListener&) = delete;

  Endpoint endpoint;

 private:
  int listener_;
  int waiting_[8] = {};
};

TEST_F(TcpTest, ConnectingEndsAtItsDeadline) {
  const FullListener nobody;
  std::optional<Reason> reason;
  auto connector = thread_.on_loop([&] {
    auto made = std::make_shared<TcpConnector>(thread_.loop());
    made->start(nobody.endpoint, 50ms, [&](Result<TcpSocket> socket) {
      reason = socket.has_error() ? socket.error().reason() : Reason::internal;
    });
    return made;
  });
  EXPECT_TRUE(thread_.wait_until([&] { return reason.has_value(); }));
  EXPECT_EQ(reason, Reason::deadline_exceeded);
  thread_.on_loop([&] { connector.reset(); });
}

TEST_F(TcpTest, ACancelledConnectorCallsNobody) {
  const FullListener nobody;
  bool called = false;
  auto connector = thread_.on_loop([&] {
    auto made = std::make_shared<TcpConnector>(thread_.loop());
    made->start(nobody.endpoint, 10ms, [&](Result<TcpSocket>) { called = true; });
    made->cancel();
    return made;
  });
  EXPECT_FALSE(thread_.wait_until([&] { return called; }, 50ms));
  thread_.on_loop([&] { connector.reset(); });
}

}  // namespace
}  // namespace baton::net::testing
