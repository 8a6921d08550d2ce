#include "baton/net/io/http_client.h"

#include <thread>

#include <gtest/gtest.h>

#include "baton/net/sse.h"

#include "raw_client.h"
#include "tcp.h"
#include "test_server.h"

namespace baton::net::testing {
namespace {

TEST(HttpClient, GetsAndPosts) {
  TestServer server;
  HttpCall call;
  call.target = "/a?b";
  const HttpResponse got = http_call(server.endpoint(), call).value();
  EXPECT_EQ(got.status, 200);
  EXPECT_EQ(got.body, "GET /a ?b []");
  EXPECT_EQ(got.header("content-type"), "text/plain");
  call.method = "POST";
  call.body = std::string(1'000'000, 'p');
  EXPECT_EQ(http_call(server.endpoint(), call).value().body, "POST /a ?b [" + call.body + "]");
  call.method = "HEAD";
  call.body.clear();
  EXPECT_EQ(http_call(server.endpoint(), call).value().body, "");
}

TEST(HttpClient, AnErrorStatusIsAnAnswer) {
  TestServer server;
  HttpCall call;
  call.target = "/drop";
  const HttpResponse got = http_call(server.endpoint(), call).value();
  EXPECT_EQ(got.status, 500);
  EXPECT_NE(got.body.find("internal_error"), std::string::npos);
}

TEST(HttpClient, ReadsAStreamPieceByPiece) {
  TestServer server;
  HttpCall call;
  call.target = "/stream";
  SseReader reader;
  std::vector<std::string> events;
  const auto write = [&](std::string data) {
    server.thread().loop().post([&server, data] {
      std::string out;
      append_sse_data(out, data);
      server.held[0]->write(out);
      if (data == "[DONE]") server.held[0]->finish();
    });
  };
  call.on_head = [&](const HttpResponse& head) {
    EXPECT_EQ(head.header("content-type"), "text/event-stream");
    write("1");
  };
  call.on_body = [&](std::string_view piece) {
    for (const SseEvent& event : reader.push(piece).value()) {
      events.push_back(event.data);
      // Written only now: the piece before came through without waiting for it.
      if (event.data == "1") write("2");
      if (event.data == "2") write("[DONE]");
    }
    return true;
  };
  EXPECT_EQ(http_call(server.endpoint(), call).value().status, 200);
  EXPECT_EQ(events, (std::vector<std::string>{"1", "2", "[DONE]"}));
}

TEST(HttpClient, ACallerThatHasSeenEnoughEndsTheCallAndTheServerNotices) {
  TestServer server;
  HttpCall call;
  call.target = "/stream";
  call.on_head = [&](const HttpResponse&) {
    server.thread().loop().post([&server] { server.held[0]->write("x"); });
  };
  call.on_body = [](std::string_view) { return false; };
  EXPECT_EQ(http_call(server.endpoint(), call).error().reason(), Reason::cancelled);
  EXPECT_TRUE(server.wait_disconnected(1));
  call.on_body = nullptr;
  call.on_head = nullptr;
  call.keep_going = [] { return false; };
  EXPECT_EQ(http_call(server.endpoint(), call).error().reason(), Reason::cancelled);
}

TEST(HttpClient, ASilentServerIsADeadlineAndACutAnswerAnIoError) {
  TestServer server;
  HttpCall call;
  call.target = "/hold";
  call.idle_time = 100ms;
  EXPECT_EQ(http_call(server.endpoint(), call).error().reason(), Reason::deadline_exceeded);
  call.idle_time = 10s;
  call.total_time = 100ms;
  const auto late = http_call(server.endpoint(), call);
  EXPECT_EQ(late.error().reason(), Reason::deadline_exceeded);
  EXPECT_NE(late.error().message().find("in time"), std::string::npos);
  call.total_time = 10s;
  call.target = "/stream";
  call.on_head = [&](const HttpResponse&) {
    server.thread().loop().post([&server] { server.held.back()->abort(); });
  };
  const auto cut = http_call(server.endpoint(), call);
  EXPECT_EQ(cut.error().reason(), Reason::io_error);
  EXPECT_NE(cut.error().message().find("/stream"), std::string::npos);
}

TEST(HttpClient, NobodyListeningIsAnIoError) {
  Endpoint nobody;
  {
    TestServer server;
    nobody = server.endpoint();
  }
  EXPECT_EQ(http_call(nobody, {}).error().reason(), Reason::io_error);
}

TEST(HttpClient, ABodyAboveTheLimitIsRefused) {
  TestServer server;
  HttpCall call;
  call.method = "POST";
  call.body = std::string(1000, 'x');
  call.body_limit_bytes = 100;
  EXPECT_EQ(http_call(server.endpoint(), call).error().reason(), Reason::protocol_violation);
}

/// Says the same to everybody who says something, and closes.
class Canned {
 public:
  explicit Canned(std::string answer) : answer_(std::move(answer)) {
    acceptor_ = thread_.on_loop([this] {
      return TcpAcceptor::open(thread_.loop(), {},
                               [this](TcpSocket socket) {
                                 auto stream =
                                     std::make_shared<TcpStream>(thread_.loop(), std::move(socket));
                                 stream->start({[this, stream = stream.get()](std::string_view) {
                                                  stream->queue(answer_);
                                                  stream->close_gracefully(1s, 1s);
                                                },
                                                [](const std::string&) {}});
                               })
          .value();
    });
  }
  ~Canned() {
    thread_.on_loop([this] { acceptor_->close(); });
  }
  const Endpoint& endpoint() const { return acceptor_->endpoint(); }

 private:
  const std::string answer_;
  LoopThread thread_;
  std::shared_ptr<TcpAcceptor> acceptor_;
};

TEST(HttpClient, InterimAnswersAreNotTheAnswer) {
  const Canned server(
      "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nX: y\r\n\r\n"
      "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
  int heads = 0;
  HttpCall call;
  call.on_head = [&](const HttpResponse&) { ++heads; };
  const HttpResponse got = http_call(server.endpoint(), call).value();
  EXPECT_EQ(got.status, 200);
  EXPECT_EQ(got.body, "ok");
  EXPECT_FALSE(got.header("x").has_value());
  EXPECT_EQ(heads, 1);
}

TEST(HttpClient, AnAnswerWithoutALengthEndsWithItsConnectionAndAShortOneIsCutOff) {
  const Canned whole("HTTP/1.1 200 OK\r\n\r\nuntil the end");
  EXPECT_EQ(http_call(whole.endpoint(), {}).value().body, "until the end");
  const Canned cut("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\ncut");
  EXPECT_EQ(http_call(cut.endpoint(), {}).error().reason(), Reason::io_error);
  const Canned nothing("HTTP/1.1 20");
  EXPECT_EQ(http_call(nothing.endpoint(), {}).error().reason(), Reason::io_error);
  const Canned garbage("220 mail.example.org ESMTP\r\n\r\n");
  EXPECT_EQ(http_call(garbage.endpoint(), {}).error().reason(), Reason::protocol_violation);
}

}  // namespace
}  // namespace baton::net::testing
