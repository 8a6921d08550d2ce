// Streamed answers, and clients that go away or do not read.
#include <thread>

#include <gtest/gtest.h>

#include "raw_client.h"
#include "test_server.h"

namespace baton::net::testing {
namespace {

/// Starts a stream and reads its head.
std::string open_stream(TestServer& server, RawClient& client, const std::string& request) {
  const std::size_t before = server.thread().on_loop([&] { return server.held.size(); });
  client.send(request);
  EXPECT_TRUE(server.wait_held(before + 1));
  return client.read_until("\r\n\r\n");
}

bool write_last(TestServer& server, const std::string& text) {
  return server.thread().on_loop([&] { return server.held.back()->write(text); });
}

TEST(HttpStream, EachPieceArrivesBeforeTheNextIsWritten) {
  TestServer server;
  RawClient client(server.endpoint());
  const std::string head = open_stream(server, client, get("/stream"));
  EXPECT_EQ(status_of(head), 200);
  EXPECT_NE(head.find("Transfer-Encoding: chunked\r\n"), std::string::npos);
  for (const std::string text : {"data: 1\n\n", "data: 22\n\n"}) {
    EXPECT_TRUE(write_last(server, text));
    EXPECT_EQ(client.read_until("\n\n\r\n"), fmt::format("{:x}\r\n{}\r\n", text.size(), text));
  }
  server.thread().on_loop([&] {
    server.held.back()->write("");  // must not look like the end
    server.held.back()->finish();
    EXPECT_FALSE(server.held.back()->write("late"));
  });
  EXPECT_EQ(client.read_until("0\r\n\r\n"), "0\r\n\r\n");
  client.send(get("/next"));
  EXPECT_EQ(status_of(client.read_answer()), 200);
  EXPECT_EQ(server.stats().disconnects, 0u);
}

TEST(HttpStream, AnHttp10ClientGetsThePlainBytesUntilClose) {
  TestServer server;
  RawClient client(server.endpoint());
  const std::string head = open_stream(server, client, "GET /stream HTTP/1.0\r\n\r\n");
  EXPECT_EQ(head.find("chunked"), std::string::npos);
  write_last(server, "data: 1\n\n");
  server.thread().on_loop([&] { server.held.back()->finish(); });
  EXPECT_EQ(client.read_all(), "data: 1\n\n");
  EXPECT_TRUE(client.closed());
}

TEST(HttpStream, ToHeadAStreamIsItsHeadAlone) {
  TestServer server;
  RawClient client(server.endpoint());
  open_stream(server, client, "HEAD /stream HTTP/1.1\r\nHost: t\r\n\r\n");
  EXPECT_TRUE(write_last(server, "data: 1\n\n"));
  server.thread().on_loop([&] { server.held.back()->finish(); });
  client.send(get("/next"));
  EXPECT_TRUE(client.read_answer().starts_with("HTTP/1.1 200 OK\r\n"));
}

TEST(HttpStream, ACutStreamHasNoEndMark) {
  TestServer server;
  for (const bool dropped : {false, true}) {
    RawClient client(server.endpoint());
    open_stream(server, client, get("/stream"));
    write_last(server, "part");
    ASSERT_EQ(client.read_until("part\r\n"), "4\r\npart\r\n");
    server.thread().on_loop([&] {
      if (!dropped) server.held.back()->abort();
      server.held.pop_back();
    });
    EXPECT_EQ(client.read_all(), "");
    EXPECT_TRUE(client.closed());
  }
}

TEST(HttpStream, TheMomentOfWritingIsTold) {
  TestServer server;
  RawClient client(server.endpoint());
  open_stream(server, client, get("/stream"));
  const Instant before = monotonic_now();
  Instant written{};
  server.thread().on_loop(
      [&] { server.held.back()->write("x", [&](Instant now) { written = now; }); });
  client.read_until("x\r\n");
  // The client may have the byte before the server has read its clock: only this turn of the loop
  // is surely later.
  server.thread().on_loop([&] {
    EXPECT_GE(written, before);
    EXPECT_LE(written, monotonic_now());
  });
}

TEST(HttpStream, RequestTimesAreInOrder) {
  TestServer server;
  Instant first_byte{};
  Instant received{};
  server.on_custom = [&](HttpRequest request, std::shared_ptr<HttpResponder> responder) {
    first_byte = request.first_byte_at;
    received = request.received_at;
    responder->send(200, {}, "");
  };
  RawClient client(server.endpoint());
  const Instant before = monotonic_now();
  client.send(
      "POST /custom HTTP/1.1\r\nHost: t\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n");
  client.read_until("\r\n\r\n");  // to continue: the header has been read
  const Instant pause = monotonic_now();
  std::this_thread::sleep_for(5ms);
  const Instant paused = monotonic_now();
  client.send("x");
  client.read_answer();
  server.thread().on_loop([&] {
    EXPECT_GE(first_byte, before);
    EXPECT_LE(first_byte, pause);
    EXPECT_GE(received, paused);
  });
}

enum class Leave { close, reset, half_close };

class HttpDisconnect : public ::testing::TestWithParam<Leave> {
 protected:
  static void leave(RawClient& client) {
    switch (GetParam()) {
      case Leave::close:
        return client.close();
      case Leave::reset:
        return client.reset();
      case Leave::half_close:
        return client.shut_down_sending();
    }
  }
};

TEST_P(HttpDisconnect, IsSeenPromptlyWhileTheAnswerIsPending) {
  TestServer server;
  RawClient client(server.endpoint());
  client.send(get("/hold"));
  ASSERT_TRUE(server.wait_held(1));
  EXPECT_TRUE(server.thread().on_loop([&] { return server.held[0]->open(); }));
  leave(client);
  EXPECT_TRUE(server.wait_disconnected(1));
  server.thread().on_loop([&] {
    EXPECT_FALSE(server.held[0]->open());
    server.held[0]->send(200, {}, "nobody is there");
  });
  EXPECT_EQ(server.stats().open_connections, 0u);
}

TEST_P(HttpDisconnect, IsSeenPromptlyWhileStreamingAndQuiet) {
  TestServer server;
  RawClient client(server.endpoint());
  open_stream(server, client, get("/stream"));
  leave(client);
  EXPECT_TRUE(server.wait_disconnected(1));
  EXPECT_FALSE(write_last(server, "x"));
  EXPECT_EQ(server.stats().disconnects, 1u);
  EXPECT_EQ(server.stats().given_up, 0u);
}

TEST_P(HttpDisconnect, IsSeenWithPipelinedBytesBeforeIt) {
  TestServer server;
  RawClient client(server.endpoint());
  client.send(get("/hold") + get("/1"));
  ASSERT_TRUE(server.wait_held(1));
  leave(client);
  EXPECT_TRUE(server.wait_disconnected(1));
  EXPECT_EQ(server.thread().on_loop([&] { return server.seen; }), 1u);
}

TEST_P(HttpDisconnect, IsSeenBehindMorePipelinedBytesThanAreRead) {
  TestServer server;
  RawClient client(server.endpoint());
  client.send(get("/hold") + std::string(300'000, 'x'));
  ASSERT_TRUE(server.wait_held(1));
  leave(client);
  EXPECT_TRUE(server.wait_disconnected(1));
}

std::string way_of(const ::testing::TestParamInfo<Leave>& way) {
  switch (way.param) {
    case Leave::close:
      return "Close";
    case Leave::reset:
      return "Reset";
    case Leave::half_close:
      return "HalfClose";
  }
  return "";
}

INSTANTIATE_TEST_SUITE_P(Ways, HttpDisconnect,
                         ::testing::Values(Leave::close, Leave::reset, Leave::half_close), way_of);

TEST(HttpDisconnectLate, ACallbackSetAfterTheClientLeftIsStillCalled) {
  TestServer server;
  RawClient client(server.endpoint());
  client.send(get("/hold"));
  ASSERT_TRUE(server.wait_held(1));
  client.close();
  ASSERT_TRUE(server.wait_disconnected(1));
  server.thread().on_loop([&] { server.held[0]->on_disconnect([&] { ++server.disconnected; }); });
  EXPECT_TRUE(server.wait_disconnected(2));
}

TEST(HttpDisconnectLate, AClientThatLeavesAfterItsAnswerIsNoDisconnect) {
  TestServer server;
  RawClient client(server.endpoint());
  client.send(get("/hold"));
  ASSERT_TRUE(server.wait_held(1));
  server.thread().on_loop([&] { server.held[0]->send(200, {}, "done"); });
  EXPECT_EQ(status_of(client.read_answer()), 200);
  client.close();
  ASSERT_TRUE(
      server.thread().wait_until([&] { return server.stats_on_loop().open_connections == 0; }));
  EXPECT_EQ(server.stats().disconnects, 0u);
  EXPECT_FALSE(server.wait_disconnected(1, 20ms));
}

TEST(HttpBackPressure, R20AStreamThatIsNotReadIsGivenUpAt256KiB) {
  TestServer server;
  RawClient client(server.endpoint(), 4096);
  open_stream(server, client, get("/stream"));
  const std::string piece(16 * 1024, 'x');
  std::size_t most = 0;
  bool refused = false;
  // What the kernel itself takes is bounded, too.
  for (int i = 0; i < 2000 && !refused; ++i) {
    refused = !write_last(server, piece);
    most =
        std::max(most, server.thread().on_loop([&] { return server.held[0]->buffered_bytes(); }));
  }
  EXPECT_TRUE(refused);
  EXPECT_LE(most, 256u * 1024);
  EXPECT_TRUE(server.wait_disconnected(1));
  EXPECT_EQ(server.stats().given_up, 1u);
}

TEST(HttpBackPressure, R20AStreamThatStallsIsGivenUpAfterTheStallTime) {
  HttpLimits limits;
  limits.write_stall_time = 150ms;
  TestServer server(limits);
  RawClient client(server.endpoint(), 4096);
  open_stream(server, client, get("/stream"));
  const std::string piece(16 * 1024, 'x');
  // More than the kernel may still find room for by itself, and in one turn of the loop: the stall
  // time runs from the first byte that it does not take.
  server.thread().on_loop([&] {
    while (server.held[0]->buffered_bytes() < 128 * 1024) {
      ASSERT_TRUE(server.held[0]->write(piece));
    }
  });
  EXPECT_TRUE(server.wait_disconnected(1));
  EXPECT_EQ(server.stats().given_up, 1u);
  EXPECT_FALSE(write_last(server, "x"));
}

TEST(HttpBackPressure, ALongAnswerToASlowReaderIsNotCutWhileItTakesBytes) {
  HttpLimits limits;
  limits.write_stall_time = 2s;
  limits.stop_grace = 100ms;
  TestServer server(limits);
  const std::string body(6 * 1024 * 1024, 'l');
  server.on_custom = [&](HttpRequest, std::shared_ptr<HttpResponder> responder) {
    responder->send(200, {}, body);
  };
  RawClient client(server.endpoint(), 64 * 1024);
  client.send(get("/custom", "Connection: close\r\n"));
  std::string got;
  const Instant start = monotonic_now();
  // 64 KiB in 30 ms: the whole takes longer than the server waits for one sign of progress.
  while (!client.closed() && monotonic_now() - start < 2 * test_patience) {
    got += client.read_once();
    std::this_thread::sleep_for(30ms);
  }
  EXPECT_EQ(body_of(got).size(), body.size());
  EXPECT_GT(monotonic_now() - start, limits.write_stall_time);
}

TEST(HttpBackPressure, OneStalledStreamDoesNotDelayAnother) {
  TestServer server;
  RawClient stalled(server.endpoint(), 4096);
  open_stream(server, stalled, get("/stream"));
  const std::string piece(16 * 1024, 'x');
  while (server.thread().on_loop([&] { return server.held[0]->buffered_bytes(); }) == 0) {
    ASSERT_TRUE(write_last(server, piece));
  }
  RawClient other(server.endpoint());
  open_stream(server, other, get("/stream"));
  EXPECT_TRUE(write_last(server, "data: 1\n\n"));
  EXPECT_EQ(other.read_until("\n\n\r\n"), "9\r\ndata: 1\n\n\r\n");
}

}  // namespace
}  // namespace baton::net::testing
