// What the server answers: methods, versions, keep-alive, pipelining, malformed input.
#include "baton/net/io/http_server.h"

#include <thread>

#include <gtest/gtest.h>

#include "raw_client.h"
#include "test_server.h"

namespace baton::net::testing {
namespace {

TEST(HttpServer, AnswersAndKeepsTheConnection) {
  TestServer server;
  RawClient client(server.endpoint());
  client.send(get("/a?x=1&y=%20"));
  const std::string first = client.read_answer();
  EXPECT_EQ(status_of(first), 200);
  EXPECT_EQ(body_of(first), "GET /a ?x=1&y=%20 []");
  EXPECT_NE(first.find("\r\nDate: "), std::string::npos);
  EXPECT_EQ(first.find("Connection: close"), std::string::npos);
  client.send(post("/b", "body"));
  EXPECT_EQ(body_of(client.read_answer()), "POST /b ? [body]");
  EXPECT_EQ(server.stats().accepted, 1u);
}

TEST(HttpServer, TheRequestArrivesByteByByteOrInOnePiece) {
  TestServer server;
  RawClient client(server.endpoint());
  const std::string chunked =
      "POST /c HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: "
      "chunked\r\n\r\n3\r\nabc\r\n2;ext=1\r\nde\r\n"
      "0\r\nTrailer: x\r\n\r\n";
  for (const std::string& request : {post("/b", "body"), chunked}) {
    client.send(request);
    const std::string whole = body_of(client.read_answer());
    for (char byte : request) client.send(std::string_view(&byte, 1));
    EXPECT_EQ(body_of(client.read_answer()), whole);
    EXPECT_EQ(whole, request == chunked ? "POST /c ? [abcde]" : "POST /b ? [body]");
  }
}

TEST(HttpServer, HeadersAreFoundWhateverTheirLetterCase) {
  TestServer server;
  server.on_custom = [](HttpRequest request, std::shared_ptr<HttpResponder> responder) {
    responder->send(200, {},
                    std::string(request.header("authorization").value_or("none")) +
                        (request.header("x-none") ? "!" : "") + request.peer);
  };
  RawClient client(server.endpoint());
  client.send(get("/custom", "AUTHORIZATION:  Bearer k \r\n"));
  EXPECT_TRUE(body_of(client.read_answer()).starts_with("Bearer k127.0.0.1:"));
}

TEST(HttpServer, PipelinedRequestsAreAnsweredInOrderAndAreNoDisconnect) {
  TestServer server;
  RawClient client(server.endpoint());
  client.send(get("/hold") + get("/1") + get("/2"));
  ASSERT_TRUE(server.wait_held(1));
  EXPECT_EQ(server.thread().on_loop([&] { return server.seen; }), 1u);
  server.thread().on_loop([&] { server.held[0]->send(200, {}, "held"); });
  EXPECT_EQ(body_of(client.read_answer()), "held");
  EXPECT_EQ(body_of(client.read_answer()), "GET /1 ? []");
  EXPECT_EQ(body_of(client.read_answer()), "GET /2 ? []");
  EXPECT_EQ(server.stats().disconnects, 0u);
}

TEST(HttpServer, ManyPipelinedRequestsNeitherNestNorGetLost) {
  HttpLimits limits;
  limits.keep_alive_requests = 100'000;
  TestServer server(limits);
  RawClient client(server.endpoint());
  constexpr int count = 5000;
  std::string requests;
  for (int i = 0; i < count; ++i) requests += get("/" + std::to_string(i));
  std::thread sender([&] { client.send(requests); });
  for (int i = 0; i < count; ++i) {
    ASSERT_EQ(body_of(client.read_answer()), fmt::format("GET /{} ? []", i));
  }
  sender.join();
}

TEST(HttpServer, Http10IsClosedAfterItsAnswer) {
  TestServer server;
  RawClient client(server.endpoint());
  client.send("GET /old HTTP/1.0\r\n\r\n");
  const std::string answer = client.read_all();
  EXPECT_TRUE(client.closed());
  EXPECT_EQ(body_of(answer), "GET /old ? []");
  EXPECT_NE(answer.find("Connection: close\r\n"), std::string::npos);
}

TEST(HttpServer, AClientThatAsksForCloseGetsIt) {
  TestServer server;
  RawClient client(server.endpoint());
  client.send(get("/", "Connection: close\r\n"));
  EXPECT_EQ(status_of(client.read_all()), 200);
  EXPECT_TRUE(client.closed());
}

TEST(HttpServer, HeadHasTheLengthButNoBody) {
  TestServer server;
  RawClient client(server.endpoint());
  client.send("HEAD /x HTTP/1.1\r\nHost: t\r\n\r\n" + get("/y"));
  const std::string head = client.read_until("\r\n\r\n");
  EXPECT_NE(head.find("Content-Length: 12\r\n"), std::string::npos);
  EXPECT_EQ(body_of(client.read_answer()), "GET /y ? []");
}

TEST(HttpServer, Expect100ContinueIsAnsweredBeforeTheBody) {
  TestServer server;
  RawClient client(server.endpoint());
  client.send("POST /e HTTP/1.1\r\nHost: t\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n");
  EXPECT_EQ(client.read_until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client.send("data");
  EXPECT_EQ(body_of(client.read_answer()), "POST /e ? [data]");
  // With the body already there nothing is to be continued.
  client.send(
      "POST /e HTTP/1.1\r\nHost: t\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\ndata");
  EXPECT_EQ(status_of(client.read_answer()), 200);
}

TEST(HttpServer, AnHttp10ClientIsNotToldToContinue) {
  TestServer server;
  RawClient client(server.endpoint());
  client.send("POST /e HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n");
  ASSERT_TRUE(
      server.thread().wait_until([&] { return server.stats_on_loop().open_connections == 1; }));
  client.send("data");
  EXPECT_TRUE(client.read_all().starts_with("HTTP/1.1 200 OK\r\n"));
}

TEST(HttpServer, AnAnswerThatHasNoBodyHasNoLength) {
  TestServer server;
  server.on_custom = [](HttpRequest, std::shared_ptr<HttpResponder> responder) {
    responder->send(204, {}, "must not be sent");
  };
  RawClient client(server.endpoint());
  client.send(get("/custom") + get("/next"));
  const std::string head = client.read_until("\r\n\r\n");
  EXPECT_EQ(status_of(head), 204);
  EXPECT_EQ(head.find("Content-Length"), std::string::npos);
  EXPECT_EQ(body_of(client.read_answer()), "GET /next ? []");
}

TEST(HttpServer, AnAbsoluteTargetIsItsPath) {
  TestServer server;
  RawClient client(server.endpoint());
  client.send(get("http://host:80/p/q?r") + get("https://host/s") + get("http://host"));
  EXPECT_EQ(body_of(client.read_answer()), "GET /p/q ?r []");
  EXPECT_EQ(body_of(client.read_answer()), "GET /s ? []");
  EXPECT_EQ(body_of(client.read_answer()), "GET / ? []");
}

TEST(HttpServer, ADroppedResponderIsA500EvenWhenDroppedOnAnotherThread) {
  TestServer server;
  std::vector<std::thread> workers;
  server.on_custom = [&](HttpRequest, std::shared_ptr<HttpResponder> responder) {
    workers.emplace_back([moved = std::move(responder)]() mutable { moved.reset(); });
  };
  RawClient client(server.endpoint());
  for (const char* path : {"/drop", "/custom"}) {
    RawClient other(server.endpoint());
    other.send(get(path));
    const std::string answer = other.read_all();
    EXPECT_EQ(status_of(answer), 500) << path;
    EXPECT_NE(body_of(answer).find("internal_error"), std::string::npos);
  }
  for (auto& worker : workers) worker.join();
  client.send(get("/"));
  EXPECT_EQ(status_of(client.read_answer()), 200);
}

TEST(HttpServer, AHeaderValueCannotAddAHeader) {
  TestServer server;
  server.on_custom = [](HttpRequest, std::shared_ptr<HttpResponder> responder) {
    responder->send(200, {{"X-Id", "a\r\nX-Forged: 1"}, {"X-Del", "a\x7f\tb"}}, "");
  };
  RawClient client(server.endpoint());
  client.send(get("/custom"));
  const std::string answer = client.read_answer();
  EXPECT_NE(answer.find("X-Id: a  X-Forged: 1\r\n"), std::string::npos);
  EXPECT_NE(answer.find("X-Del: a \tb\r\n"), std::string::npos);
}

TEST(HttpServer, DrainFinishesWhatRunsAndKeepsNoConnection) {
  TestServer server;
  RawClient idle(server.endpoint());
  RawClient busy(server.endpoint());
  busy.send(get("/hold"));
  ASSERT_TRUE(server.wait_held(1));
  server.drain();
  EXPECT_EQ(idle.read_all(), "");
  EXPECT_TRUE(idle.closed());
  server.thread().on_loop([&] { server.held[0]->send(200, {}, "done"); });
  const std::string answer = busy.read_all();
  EXPECT_EQ(body_of(answer), "done");
  EXPECT_NE(answer.find("Connection: close\r\n"), std::string::npos);
  EXPECT_TRUE(busy.closed());
}

TEST(HttpServer, AnAddressInUseIsAnErrorWithItsName) {
  TestServer server;
  EventLoop loop;
  HttpServer::Options options;
  options.endpoint = server.endpoint();
  options.handler = [](HttpRequest, std::shared_ptr<HttpResponder>) {};
  options.error_body = [](const Error&) { return std::string(); };
  const auto second = HttpServer::listen(loop, std::move(options));
  ASSERT_TRUE(second.has_error());
  EXPECT_EQ(second.error().reason(), Reason::io_error);
  EXPECT_NE(second.error().message().find(server.endpoint().to_string()), std::string::npos);
}

const std::vector<std::string>& malformed_requests() {
  static const std::vector<std::string> all = {
      "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 client hello",
      std::string("\0\0\0\5hello", 9),
      "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
      "GET / HTTP/3.1\r\n\r\n",
      "GET  / HTTP/1.1\r\nHost: t\r\n\r\n",
      "GET / FTP/1.1\r\nHost: t\r\n\r\n",
      "GET x HTTP/1.1\r\nHost: t\r\n\r\n",
      "G\x01T / HTTP/1.1\r\nHost: t\r\n\r\n",
      "GET /\x7f HTTP/1.1\r\nHost: t\r\n\r\n",
      "GET / HTTP/1.1\r\n\r\n",
      "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
      "GET / HTTP/1.1\r\nHost: t\r\nNo colon here\r\n\r\n",
      "GET / HTTP/1.1\r\nHost: t\r\n: no name\r\n\r\n",
      "GET / HTTP/1.1\r\nHost : t\r\n\r\n",
      "GET / HTTP/1.1\nHost: t\n\n\r\n\r\n",
      "POST / HTTP/1.1\r\nHost: t\r\nContent-Length: -1\r\n\r\n",
      "POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 1x\r\n\r\n",
      "POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 99999999999999999999999\r\n\r\n",
      "POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
      "POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 5\r\nTransfer-Encoding: "
      "chunked\r\n\r\n0\r\n\r\n",
      "POST / HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\nContent-Length: "
      "5\r\n\r\n0\r\n\r\n",
      "POST / HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: gzip\r\n\r\nabc",
      "POST / HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
      "POST / HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
      "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
      "POST / HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
      "POST / HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n\r\n",
      "POST / HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcdefgh",
      "POST / HTTP/1.1\r\nHost: t\r\nExpect: tea\r\nContent-Length: 1\r\n\r\n",
  };
  return all;
}

TEST(HttpServer, R20EveryMalformedRequestIsA400AndClosesItsConnection) {
  TestServer server;
  for (const std::string& request : malformed_requests()) {
    RawClient client(server.endpoint());
    client.send(request);
    const std::string answer = client.read_all();
    EXPECT_EQ(status_of(answer), 400) << request << "\n→ " << answer;
    EXPECT_NE(answer.find("Content-Type: application/json\r\n"), std::string::npos);
    EXPECT_TRUE(client.closed());
  }
  EXPECT_EQ(server.stats().bad_requests, malformed_requests().size());
  EXPECT_EQ(server.thread().on_loop([&] { return server.seen; }), 0u);
}

TEST(HttpServer, R6TenThousandMalformedRequestsDoNotDisturbAnother) {
  TestServer server;
  RawClient good(server.endpoint());
  good.send(get("/stream"));
  ASSERT_TRUE(server.wait_held(1));
  ASSERT_NE(good.read_until("\r\n\r\n"), "");
  const auto& all = malformed_requests();
  for (std::size_t i = 0; i < 10'000; ++i) {
    RawClient bad(server.endpoint());
    bad.send(all[i % all.size()]);
    if (i % 1000 != 0) continue;
    ASSERT_TRUE(server.thread().on_loop([&] { return server.held[0]->write("token"); }));
    ASSERT_EQ(good.read_until("token\r\n"), "5\r\ntoken\r\n");
  }
  server.thread().on_loop([&] { server.held[0]->finish(); });
  EXPECT_EQ(good.read_until("0\r\n\r\n"), "0\r\n\r\n");
  good.send(get("/again"));
  EXPECT_EQ(status_of(good.read_answer()), 200);
}

TEST(HttpServer, ARespondersLifeMayBeLongerThanItsServers) {
  LoopThread thread;
  std::shared_ptr<HttpResponder> kept;
  bool told = false;
  auto server = thread.on_loop([&] {
    HttpServer::Options options;
    options.handler = [&](HttpRequest, std::shared_ptr<HttpResponder> responder) {
      responder->on_disconnect([&] { told = true; });
      kept = std::move(responder);
    };
    options.error_body = [](const Error&) { return std::string(); };
    return HttpServer::listen(thread.loop(), std::move(options)).value();
  });
  RawClient client(server->endpoint());
  client.send(get("/"));
  ASSERT_TRUE(thread.wait_until([&] { return kept != nullptr; }));
  thread.on_loop([&] { server.reset(); });
  EXPECT_EQ(client.read_all(), "");
  thread.on_loop([&] {
    EXPECT_FALSE(kept->open());
    kept->send(200, {}, "late");
    kept.reset();
  });
  EXPECT_FALSE(thread.on_loop([&] { return told; }));
}

}  // namespace
}  // namespace baton::net::testing
