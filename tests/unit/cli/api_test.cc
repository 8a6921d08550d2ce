#include "api.h"

#include <future>
#include <thread>

#include <boost/json.hpp>
#include <gmock/gmock.h>

#include "baton/net/io/event_loop.h"
#include "baton/net/io/http_server.h"

namespace baton::cli {
namespace {

using testing::HasSubstr;

TEST(Api, AUrlIsHostAndPortWithOrWithoutAPath) {
  EXPECT_EQ(parse_url("http://127.0.0.1:8000").value(), (Endpoint{"127.0.0.1", 8000}));
  EXPECT_EQ(parse_url("http://[::1]:80/v1").value(), (Endpoint{"::1", 80}));
  for (const char* bad : {"127.0.0.1:8000", "https://h:1", "http://", "http://h", "http://h:x"}) {
    EXPECT_EQ(parse_url(bad).error().reason(), Reason::bad_config) << bad;
  }
}

TEST(Api, ARequestCarriesThePromptInItsOwnForm) {
  Prompt prompt;
  prompt.content = std::vector<TokenId>{1, 2};
  prompt.sampling.seed = 9;
  const std::string ids = request_body(prompt);
  EXPECT_THAT(ids, HasSubstr(R"("prompt":[1,2])"));
  EXPECT_THAT(ids, HasSubstr(R"("seed":9)"));
  EXPECT_THAT(ids, HasSubstr(R"("baton":{"trace":true,"logits_digest":false})"));
  prompt.content = std::vector<Turn>{{"user", "a\"b"}};
  EXPECT_THAT(request_body(prompt), HasSubstr(R"("messages":[{"role":"user","content":"a\"b"}])"));
}

/// Answers every request with one status and body.
class CannedServer {
 public:
  CannedServer(int status, std::string body) {
    std::promise<Endpoint> bound;
    thread_ = std::thread([this, status, body = std::move(body), &bound] {
      net::HttpServer::Options options;
      options.handler = [=](const net::HttpRequest&, const auto& responder) {
        responder->send(status, {}, body);
      };
      options.error_body = [](const Error&) { return std::string(); };
      const auto server = net::HttpServer::listen(loop_, std::move(options)).value();
      bound.set_value(server->endpoint());
      loop_.run();
    });
    endpoint = bound.get_future().get();
  }
  ~CannedServer() {
    loop_.stop();
    thread_.join();
  }

  Endpoint endpoint;

 private:
  net::EventLoop loop_;
  std::thread thread_;
};

const auto no_text = [](std::string_view) {};

TEST(Api, ARefusalIsTheServersOwnError) {
  CannedServer server(404, R"({"error":{"message":"no such model","code":"model_not_found"}})");
  const Result<Answer> answer = ask(server.endpoint, {"x", {}}, no_text);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().reason(), Reason::model_not_found);
  EXPECT_EQ(answer.error().message(), "no such model");
}

TEST(Api, AnAnswerIsStreamed) {
  CannedServer server(200, "data: {\"choices\":[{\"text\":\"hi\"}]}\n\ndata: [DONE]\n\n");
  std::string streamed;
  const Result<Answer> answer =
      ask(server.endpoint, {"x", {}}, [&](std::string_view text) { streamed += text; });
  ASSERT_TRUE(answer) << answer.error().message();
  EXPECT_EQ(streamed, "hi");
}

TEST(Api, AServerThatIsNotThereIsUnreachableAndTheMessageSaysWhatToDo) {
  Endpoint gone;
  {
    CannedServer server(200, "");
    gone = server.endpoint;
  }
  const Result<Answer> answer = ask(gone, {"x", {}}, no_text);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().reason(), Reason::io_error);
  EXPECT_THAT(answer.error().message(), HasSubstr("`baton up` starts a cluster"));
}

}  // namespace
}  // namespace baton::cli
