// R20: each limit of the server, seen from a raw socket. Times are shortened, sizes are the real
// ones unless a case says otherwise.
#include <thread>

#include <gtest/gtest.h>

#include "raw_client.h"
#include "test_server.h"

namespace baton::net::testing {
namespace {

std::string answer_to(TestServer& server, const std::string& request) {
  RawClient client(server.endpoint());
  client.send(request);
  return client.read_all();
}

TEST(HttpLimits, R20AHeaderOfSixteenKiBPassesAndMoreIs431) {
  TestServer server;
  const std::string start = "GET / HTTP/1.1\r\nHost: t\r\nConnection: close\r\n";
  const auto with_header_bytes = [&](std::size_t bytes) {
    std::string text = start;
    for (int i = 0; i < 3; ++i) text += fmt::format("X{}: {}\r\n", i, std::string(4000, 'x'));
    const std::size_t rest = bytes - text.size() - std::string("Y: \r\n\r\n").size();
    return text + "Y: " + std::string(rest, 'y') + "\r\n\r\n";
  };
  EXPECT_EQ(status_of(answer_to(server, with_header_bytes(16 * 1024))), 200);
  EXPECT_EQ(status_of(answer_to(server, with_header_bytes(16 * 1024 + 1))), 431);
  // Without an end, too: the limit does not wait for it.
  EXPECT_EQ(status_of(answer_to(server, start + "X: " + std::string(20'000, 'x'))), 431);
}

TEST(HttpLimits, R20MoreThanAHundredFieldsAre431AlsoAsTrailers) {
  TestServer server;
  const auto fields = [](int count) {
    std::string text;
    for (int i = 0; i < count; ++i) text += fmt::format("X{}: 1\r\n", i);
    return text;
  };
  EXPECT_EQ(status_of(answer_to(server, get("/", "Connection: close\r\n" + fields(98)))), 200);
  EXPECT_EQ(status_of(answer_to(server, get("/", "Connection: close\r\n" + fields(99)))), 431);
  EXPECT_EQ(status_of(answer_to(
                server, "POST / HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" +
                            fields(99) + "\r\n")),
            431);
}

TEST(HttpLimits, R20ALineOfMoreThanEightKiBIs431) {
  TestServer server;
  EXPECT_EQ(status_of(answer_to(server, get("/" + std::string(8 * 1024, 'a')))), 431);
  EXPECT_EQ(status_of(answer_to(server, get("/", "X: " + std::string(8 * 1024, 'a') + "\r\n"))),
            431);
  EXPECT_EQ(
      status_of(answer_to(server, get("/" + std::string(8000, 'a'), "Connection: close\r\n"))),
      200);
}

TEST(HttpLimits, R20ABodyOfFourMiBPassesAndMoreIs413) {
  TestServer server;
  constexpr std::size_t limit = 4 * 1024 * 1024;
  RawClient client(server.endpoint());
  std::thread sender([&] { client.send(post("/", std::string(limit, 'b'))); });
  EXPECT_EQ(client.read_answer().size() > limit, true);
  sender.join();
  // Refused from its header alone, before the first byte of the body.
  RawClient announced(server.endpoint());
  announced.send(
      fmt::format("POST / HTTP/1.1\r\nHost: t\r\nContent-Length: {}\r\n\r\n", limit + 1));
  EXPECT_EQ(status_of(announced.read_all()), 413);
}

TEST(HttpLimits, R20AChunkedBodyOfMoreThanFourMiBIs413) {
  TestServer server;
  RawClient client(server.endpoint());
  client.send("POST / HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n");
  const std::string chunk = "10000\r\n" + std::string(0x10000, 'c') + "\r\n";
  for (int i = 0; i < 65; ++i) client.send(chunk);
  EXPECT_EQ(status_of(client.read_all()), 413);
  EXPECT_TRUE(client.closed());
}

TEST(HttpLimits, R20AnEndlessChunkExtensionIsRefused) {
  TestServer server;
  EXPECT_EQ(status_of(answer_to(
                server, "POST / HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n1;" +
                            std::string(20'000, 'x'))),
            431);
}

TEST(HttpLimits, TheAnswerToATooLongBodyReachesAClientThatIsStillSending) {
  TestServer server;
  RawClient client(server.endpoint());
  std::thread sender([&] { client.send(post("/", std::string(16 * 1024 * 1024, 'b'))); });
  EXPECT_EQ(status_of(client.read_until("}}")), 413);
  sender.join();
}

TEST(HttpLimits, R20AHeaderThatTakesTooLongIs408) {
  HttpLimits limits;
  limits.header_time = 500ms;  // the first byte comes in time on a busy machine, too
  TestServer server(limits);
  RawClient client(server.endpoint());
  client.send("G");
  // Dripping does not help.
  std::thread sender([&] {
    for (int i = 0; i < 200 && client.send("G"); ++i) std::this_thread::sleep_for(10ms);
  });
  EXPECT_EQ(status_of(client.read_all()), 408);
  EXPECT_TRUE(client.closed());
  sender.join();
  EXPECT_EQ(server.stats().timeouts, 1u);
}

TEST(HttpLimits, R20AConnectionThatSaysNothingIsClosedSilently) {
  HttpLimits limits;
  limits.header_time = 100ms;
  TestServer server(limits);
  RawClient client(server.endpoint());
  EXPECT_EQ(client.read_all(), "");
  EXPECT_TRUE(client.closed());
}

TEST(HttpLimits, R20ABodyThatStopsIs408) {
  HttpLimits limits;
  limits.body_idle_time = 100ms;
  TestServer server(limits);
  RawClient client(server.endpoint());
  client.send("POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 100\r\n\r\nstart");
  const std::string answer = client.read_all();
  EXPECT_EQ(status_of(answer), 408);
  EXPECT_NE(answer.find("no byte of the body"), std::string::npos) << answer;
}

TEST(HttpLimits, R20ABodyThatDripsIs408) {
  HttpLimits limits;
  limits.body_idle_time = 400ms;
  TestServer server(limits);
  RawClient client(server.endpoint());
  client.send("POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 1000\r\n\r\n");
  // 1 byte in 10 ms is 100 B/s, under the 1 KiB/s that are asked for.
  std::thread sender([&] {
    for (int i = 0; i < 200 && client.send("x"); ++i) std::this_thread::sleep_for(10ms);
  });
  const std::string answer = client.read_all();
  EXPECT_EQ(status_of(answer), 408);
  EXPECT_NE(answer.find("too slowly"), std::string::npos) << answer;
  sender.join();
}

TEST(HttpLimits, R20ABodyHasATimeForItsWhole) {
  HttpLimits limits;
  limits.body_time = 200ms;
  TestServer server(limits);
  RawClient client(server.endpoint());
  client.send("POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 1000000\r\n\r\n");
  std::thread sender([&] {
    const std::string piece(1000, 'x');
    for (int i = 0; i < 200 && client.send(piece); ++i) std::this_thread::sleep_for(5ms);
  });
  EXPECT_EQ(status_of(client.read_all()), 408);
  sender.join();
}

TEST(HttpLimits, R20AnIdleConnectionIsClosedAfterTheKeepAliveTime) {
  HttpLimits limits;
  limits.keep_alive_time = 100ms;
  TestServer server(limits);
  RawClient client(server.endpoint());
  client.send(get("/"));
  EXPECT_EQ(status_of(client.read_answer()), 200);
  EXPECT_EQ(client.read_all(), "");
  EXPECT_TRUE(client.closed());
}

TEST(HttpLimits, R20AConnectionServesAThousandRequests) {
  TestServer server;
  RawClient client(server.endpoint());
  for (int i = 1; i <= 1000; ++i) {
    client.send(get("/"));
    const bool last = client.read_answer().find("Connection: close") != std::string::npos;
    ASSERT_EQ(last, i == 1000) << "request " << i;
  }
  EXPECT_EQ(client.read_all(), "");
  EXPECT_TRUE(client.closed());
}

TEST(HttpLimits, R20ConnectionsOverTheLimitAre503AndFreedOnesCountAgain) {
  HttpLimits limits;
  limits.connections = 3;
  TestServer server(limits);
  std::vector<RawClient> clients;
  for (int i = 0; i < 3; ++i) {
    clients.emplace_back(server.endpoint());
    clients.back().send(get("/"));
    ASSERT_EQ(status_of(clients.back().read_answer()), 200);
  }
  RawClient fourth(server.endpoint());
  const std::string refusal = fourth.read_all();
  EXPECT_EQ(status_of(refusal), 503);
  EXPECT_NE(refusal.find("Retry-After: 1\r\n"), std::string::npos);
  EXPECT_EQ(server.stats().refused_connections, 1u);
  fourth.close();
  clients.pop_back();
  ASSERT_TRUE(
      server.thread().wait_until([&] { return server.stats_on_loop().open_connections == 2; }));
  RawClient fifth(server.endpoint());
  fifth.send(get("/"));
  EXPECT_EQ(status_of(fifth.read_answer()), 200);
}

TEST(HttpLimits, TheNextHeadersTimeBeginsWithItsFirstByte) {
  HttpLimits limits;
  limits.header_time = 600ms;
  TestServer server(limits);
  RawClient client(server.endpoint());
  client.send(get("/"));
  ASSERT_EQ(status_of(client.read_answer()), 200);
  std::this_thread::sleep_for(700ms);
  client.send("GET / HT");
  std::this_thread::sleep_for(150ms);  // the deadlines are looked at in between
  client.send("TP/1.1\r\nHost: t\r\n\r\n");
  EXPECT_EQ(status_of(client.read_answer()), 200);
}

TEST(HttpLimits, ARefusedConnectionTakesNobodysPlace) {
  HttpLimits limits;
  limits.connections = 2;
  TestServer server(limits);
  std::vector<RawClient> clients;
  for (int i = 0; i < 2; ++i) {
    clients.emplace_back(server.endpoint());
    clients.back().send(get("/"));
    ASSERT_EQ(status_of(clients.back().read_answer()), 200);
  }
  RawClient lingering(server.endpoint());
  ASSERT_EQ(status_of(lingering.read_answer()), 503);  // and does not close its side
  clients.pop_back();
  ASSERT_TRUE(
      server.thread().wait_until([&] { return server.stats_on_loop().open_connections == 2; }));
  RawClient next(server.endpoint());
  next.send(get("/"));
  EXPECT_EQ(status_of(next.read_answer()), 200);
}

TEST(HttpLimits, ACrowdOverTheLimitIsToldSoUpToABoundAndLeavesNothing) {
  HttpLimits limits;
  limits.connections = 1;
  TestServer server(limits);
  std::vector<RawClient> crowd;
  for (int i = 0; i < 100; ++i) crowd.emplace_back(server.endpoint());
  ASSERT_TRUE(
      server.thread().wait_until([&] { return server.stats_on_loop().refused_connections == 99; }));
  EXPECT_EQ(server.stats().open_connections, 1U + 64);
  crowd.clear();
  ASSERT_TRUE(
      server.thread().wait_until([&] { return server.stats_on_loop().open_connections == 0; }));
  RawClient next(server.endpoint());
  next.send(get("/"));
  EXPECT_EQ(status_of(next.read_answer()), 200);
}

TEST(HttpLimits, R20ConnectionsOfOneAddressOverItsLimitAre429) {
  HttpLimits limits;
  limits.connections_per_address = 2;
  TestServer server(limits);
  RawClient first(server.endpoint());
  RawClient second(server.endpoint());
  RawClient third(server.endpoint());
  const std::string refusal = third.read_all();
  EXPECT_EQ(status_of(refusal), 429);
  EXPECT_NE(refusal.find("Retry-After: 1\r\n"), std::string::npos);
  second.send(get("/"));
  EXPECT_EQ(status_of(second.read_answer()), 200);
}

TEST(HttpLimits, NoConnectionIsLeftBehindByAnyLimit) {
  HttpLimits limits;
  limits.header_time = 50ms;
  limits.stop_grace = 50ms;
  TestServer server(limits);
  std::vector<RawClient> clients;
  for (const char* bytes : {"", "GET / HT", "\r\n\r\n", "nonsense\r\n\r\n", "\x01",
                            "POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 99999999\r\n\r\n"}) {
    clients.emplace_back(server.endpoint());
    clients.back().send(bytes);
  }
  ASSERT_TRUE(server.thread().wait_until([&] { return server.stats_on_loop().accepted == 6; }));
  // The clients neither read nor close.
  EXPECT_TRUE(
      server.thread().wait_until([&] { return server.stats_on_loop().open_connections == 0; }));
}

}  // namespace
}  // namespace baton::net::testing
