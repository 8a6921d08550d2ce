#include "baton/net/io/frame_link.h"

#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "loop_thread.h"
#include "raw_client.h"

namespace baton::net::testing {
namespace {

using Link = std::shared_ptr<FrameConnection>;

/// A server that keeps its links and what they said, and a client on the same loop.
class FrameLinkTest : public ::testing::Test {
 protected:
  struct Side {
    Link link;
    std::vector<std::string> frames;
    std::optional<Error> closed;
  };

  ~FrameLinkTest() override {
    thread_.on_loop([this] {
      server_.reset();
      client_.reset();
      for (auto& side : accepted_) side->link->close();
      accepted_.clear();
    });
  }

  static void watch(Side& side, Link link) {
    side.link = std::move(link);
    side.link->on_frame([&side](std::string_view frame) { side.frames.emplace_back(frame); });
    side.link->on_closed([&side](const Error& error) { side.closed = error; });
  }

  void listen(FrameLimits limits = {}) {
    thread_.on_loop([&] {
      server_ = FrameServer::listen(thread_.loop(), {}, limits, [this](Link link) {
                  accepted_.push_back(std::make_unique<Side>());
                  watch(*accepted_.back(), std::move(link));
                }).value();
      client_ = std::make_unique<FrameClient>(thread_.loop(), limits);
    });
  }

  void connect(Side& side, Endpoint endpoint, Duration deadline = test_patience) {
    thread_.on_loop([&] {
      client_->connect(endpoint, deadline, [&side](Result<Link> link) {
        if (link.has_error()) {
          side.closed = link.error();
        } else {
          watch(side, *link);
        }
      });
    });
  }

  void connect(Side& side) {
    connect(side, server_->endpoint());
    ASSERT_TRUE(thread_.wait_until([&] { return side.link != nullptr; }));
    ASSERT_TRUE(thread_.wait_until([&] { return !accepted_.empty(); }));
  }

  /// For the test's thread: another connection may be coming in at this moment.
  Side& accepted(std::size_t index) {
    return *thread_.on_loop([&] { return accepted_.at(index).get(); });
  }

  bool send(Side& side, const std::string& payload) {
    return thread_.on_loop([&] { return side.link->send(payload); });
  }

  bool wait_frames(Side& side, std::size_t count) {
    return thread_.wait_until([&] { return side.frames.size() >= count; });
  }

  Reason wait_closed(Side& side) {
    EXPECT_TRUE(thread_.wait_until([&] { return side.closed.has_value(); }));
    return thread_.on_loop([&] { return side.closed.value_or(Error()).reason(); });
  }

  LoopThread thread_;
  std::unique_ptr<FrameServer> server_;
  std::unique_ptr<FrameClient> client_;
  std::vector<std::unique_ptr<Side>> accepted_;
};

TEST_F(FrameLinkTest, FramesArriveWholeAndInOrderInBothDirections) {
  listen();
  Side side;
  connect(side);
  std::vector<std::string> sent;
  for (std::size_t i = 0; i < 500; ++i) sent.push_back(std::string(i * 37 % 5000, 'a') + "!");
  sent.emplace_back(max_frame_bytes, 'b');
  sent.emplace_back("");
  thread_.on_loop([&] {
    for (const auto& payload : sent) {
      EXPECT_TRUE(side.link->send(payload));
      EXPECT_TRUE(accepted_[0]->link->send(payload));
    }
  });
  ASSERT_TRUE(wait_frames(accepted(0), sent.size()));
  ASSERT_TRUE(wait_frames(side, sent.size()));
  thread_.on_loop([&] {
    EXPECT_EQ(accepted_[0]->frames, sent);
    EXPECT_EQ(side.frames, sent);
    EXPECT_EQ(side.link->outbox_bytes(), 0u);
    EXPECT_EQ(side.link->outbox_frames(), 0u);
    side.link->close();
  });
}

TEST_F(FrameLinkTest, TheEndOfOneSideIsToldToTheOtherOnceAndNotToItself) {
  listen();
  Side side;
  connect(side);
  send(side, "hello");
  ASSERT_TRUE(wait_frames(accepted(0), 1));
  thread_.on_loop([&] {
    side.link->send("last words");
    side.link->close();
    EXPECT_FALSE(side.link->send("too late"));
    EXPECT_FALSE(side.link->open());
  });
  EXPECT_EQ(wait_closed(accepted(0)), Reason::transport_failed);
  thread_.on_loop([&] {
    EXPECT_EQ(accepted_[0]->frames, (std::vector<std::string>{"hello", "last words"}));
    EXPECT_FALSE(side.closed.has_value());
    EXPECT_EQ(server_->open_connections(), 0u);
  });
}

TEST_F(FrameLinkTest, SEC15AStrayHttpClientIsClosedAtOnceAndOthersAreNotDisturbed) {
  listen();
  Side side;
  connect(side);
  send(side, "hello");
  RawClient stray(server_->endpoint());
  stray.send("GET / HTTP/1.1\r\n\r\n");
  stray.read_all();
  EXPECT_TRUE(stray.closed());
  ASSERT_TRUE(thread_.wait_until([&] { return accepted_.size() == 2; }));
  EXPECT_EQ(wait_closed(accepted(1)), Reason::protocol_violation);
  send(side, "still here");
  EXPECT_TRUE(wait_frames(accepted(0), 2));
  thread_.on_loop([&] { side.link->close(); });
}

TEST_F(FrameLinkTest, SEC15AConnectionThatSaysNothingWholeIsClosedAfterTheHelloTime) {
  FrameLimits limits;
  limits.hello_time = 1s;  // for `good` on a busy machine, too
  listen(limits);
  RawClient silent(server_->endpoint());
  RawClient half(server_->endpoint());
  half.send(std::string("\0\0\0\5hel", 7));
  RawClient good(server_->endpoint());
  good.send(encode_frame("hello"));
  silent.read_all();
  half.read_all();
  EXPECT_TRUE(silent.closed());
  EXPECT_TRUE(half.closed());
  good.read_all(200ms);
  EXPECT_FALSE(good.closed());
  EXPECT_EQ(thread_.on_loop([&] { return server_->open_connections(); }), 1u);
}

TEST_F(FrameLinkTest, ACrowdOfSilentConnectionsDoesNotKeepAPeerOut) {
  FrameLimits limits;
  limits.silent_connections = 4;
  listen(limits);
  std::vector<RawClient> crowd;
  for (int i = 0; i < 20; ++i) crowd.emplace_back(server_->endpoint());
  ASSERT_TRUE(thread_.wait_until([&] { return accepted_.size() == 20; }));
  Side side;
  connect(side);
  ASSERT_TRUE(send(side, "hello"));
  EXPECT_TRUE(thread_.wait_until(
      [&] { return !accepted_.back()->frames.empty() && server_->open_connections() == 4; }));
  // The oldest have gone: who connected last may still be about to speak.
  EXPECT_EQ(wait_closed(accepted(0)), Reason::deadline_exceeded);
  EXPECT_FALSE(thread_.on_loop([&] { return accepted_[19]->closed.has_value(); }));
  thread_.on_loop([&] { side.link->close(); });
}

TEST_F(FrameLinkTest, MoreConnectionsThanTheLimitAreClosedAtOnce) {
  FrameLimits limits;
  limits.connections = 2;
  listen(limits);
  std::vector<RawClient> held;
  for (int i = 0; i < 2; ++i) {
    held.emplace_back(server_->endpoint());
    held.back().send(encode_frame("hello"));
  }
  ASSERT_TRUE(thread_.wait_until([&] { return server_->open_connections() == 2; }));
  RawClient further(server_->endpoint());
  further.read_all(2s);
  EXPECT_TRUE(further.closed());
  held.pop_back();
  ASSERT_TRUE(thread_.wait_until([&] { return server_->open_connections() == 1; }));
  RawClient next(server_->endpoint());
  next.send(encode_frame("hello"));
  EXPECT_TRUE(thread_.wait_until([&] { return server_->open_connections() == 2; }));
}

TEST_F(FrameLinkTest, R7AnAnnouncedLengthAboveTheLimitClosesTheLink) {
  listen();
  RawClient client(server_->endpoint());
  client.send(encode_frame("good") + std::string("\x7f\xff\xff\xff", 4));
  client.read_all();
  EXPECT_TRUE(client.closed());
  EXPECT_EQ(wait_closed(accepted(0)), Reason::protocol_violation);
  thread_.on_loop([&] { EXPECT_EQ(accepted_[0]->frames, (std::vector<std::string>{"good"})); });
}

TEST_F(FrameLinkTest, AFullOutboxFailsTheLinkAndBlocksNobody) {
  FrameLimits limits;
  limits.outbox_bytes = 4 * 1024 * 1024;
  listen(limits);
  RawClient reader(server_->endpoint(), 4096);
  reader.send(encode_frame("hello"));
  ASSERT_TRUE(thread_.wait_until([&] { return !accepted_.empty(); }));
  const std::string payload(100'000, 'x');
  bool refused = false;
  for (int i = 0; i < 1000 && !refused; ++i) refused = !send(accepted(0), payload);
  EXPECT_TRUE(refused);
  EXPECT_EQ(wait_closed(accepted(0)), Reason::overloaded);
}

TEST_F(FrameLinkTest, TheOutboxIsBoundedInFramesToo) {
  FrameLimits limits;
  limits.outbox_frames = 10;
  listen(limits);
  Side side;
  connect(side);
  thread_.on_loop([&] {
    // One turn of the loop: nothing can leave in between.
    for (int i = 0; i < 10; ++i) EXPECT_TRUE(side.link->send("x"));
    EXPECT_FALSE(side.link->send("x"));
    EXPECT_FALSE(side.closed.has_value()) << "told inside a call";
  });
  EXPECT_EQ(wait_closed(side), Reason::overloaded);
}

TEST_F(FrameLinkTest, AnOwnerThatClosesAFailedLinkIsNotToldAnyMore) {
  FrameLimits limits;
  limits.outbox_frames = 1;
  listen(limits);
  Side side;
  connect(side);
  thread_.on_loop([&] {
    while (side.link->send("x")) {
    }
    side.link->close();
  });
  EXPECT_FALSE(thread_.wait_until([&] { return side.closed.has_value(); }, 50ms));
}

TEST_F(FrameLinkTest, ClosingFromInsideAFrameStopsTheRest) {
  listen();
  Side side;
  connect(side);
  thread_.on_loop([&] {
    Side& other = *accepted_[0];
    other.link->on_frame([&other](std::string_view frame) {
      other.frames.emplace_back(frame);
      other.link->close();
    });
    for (const char* frame : {"1", "2", "3"}) side.link->send(frame);
  });
  EXPECT_EQ(wait_closed(side), Reason::transport_failed);
  thread_.on_loop([&] { EXPECT_EQ(accepted_[0]->frames.size(), 1u); });
}

TEST_F(FrameLinkTest, NobodyListeningIsTransportFailed) {
  listen();
  const Endpoint gone = server_->endpoint();
  thread_.on_loop([&] { server_.reset(); });
  Side side;
  connect(side, gone);
  EXPECT_EQ(wait_closed(side), Reason::transport_failed);
  EXPECT_NE(side.closed->message().find(gone.to_string()), std::string::npos);
}

TEST_F(FrameLinkTest, ANameIsResolvedAndAnUnknownOneIsTransportFailed) {
  listen();
  Side named;
  connect(named, {"localhost", server_->endpoint().port});
  EXPECT_TRUE(thread_.wait_until([&] { return named.link != nullptr; }));
  Side unknown;
  connect(unknown, {"no-such-host.invalid", 1}, 4s);
  const Reason reason = wait_closed(unknown);
  // Without a name server the resolver itself may take longer than the deadline.
  EXPECT_TRUE(reason == Reason::transport_failed || reason == Reason::deadline_exceeded);
  thread_.on_loop([&] { named.link->close(); });
}

TEST_F(FrameLinkTest, AnUnreachableAddressIsADeadlineAndADroppedClientCallsNobody) {
  listen();
  Side side;
  connect(side, {"192.0.2.1", 9}, 100ms);
  const Reason reason = wait_closed(side);
  // A machine without a route says so at once.
  EXPECT_TRUE(reason == Reason::deadline_exceeded || reason == Reason::transport_failed);
  Side dropped;
  // In one turn of the loop: a machine without a route would have answered before the next one.
  thread_.on_loop([&] {
    client_->connect({"192.0.2.1", 9}, 50ms,
                     [&dropped](const Result<Link>& link) { dropped.closed = link.error(); });
    client_.reset();
  });
  EXPECT_FALSE(thread_.wait_until([&] { return dropped.closed.has_value(); }, 150ms));
}

TEST_F(FrameLinkTest, TheServersEndClosesItsLinks) {
  listen();
  Side side;
  connect(side);
  send(side, "hello");
  ASSERT_TRUE(wait_frames(accepted(0), 1));
  thread_.on_loop([&] { server_.reset(); });
  EXPECT_EQ(wait_closed(side), Reason::transport_failed);
  EXPECT_FALSE(thread_.on_loop([&] { return accepted_[0]->closed.has_value(); }));
}

}  // namespace
}  // namespace baton::net::testing
