#include "answer_stream.h"

#include <gmock/gmock.h>

namespace baton::cli {
namespace {

using testing::ElementsAre;

const std::string whole =
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"Hel\"},"
    "\"finish_reason\":null}],\"usage\":null}\n\n"
    "data: {\"choices\":[{\"delta\":{\"content\":\"lo\"},\"finish_reason\":null}]}\n\n"
    "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}],\"baton\":{"
    "\"times_ms\":{\"total\":5.5},\"token_ids\":[7,8],\"logits_digests\":[\"aa\",\"bb\"]}}\n\n"
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3}}\n\n"
    "data: [DONE]\n\n";

TEST(AnswerStream, ReadsTheSameAnswerHoweverItsBytesWereSplit) {
  for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, whole.size()}) {
    std::string streamed;
    AnswerStream stream([&](std::string_view text) { streamed += text; });
    for (std::size_t at = 0; at < whole.size(); at += piece) {
      ASSERT_TRUE(stream.push(std::string_view(whole).substr(at, piece)));
    }
    const Result<Answer> answer = stream.finish();
    ASSERT_TRUE(answer);
    EXPECT_EQ(streamed, "Hello");
    EXPECT_EQ(answer->text, "Hello");
    EXPECT_EQ(answer->finish_reason, "stop");
    EXPECT_EQ(answer->prompt_tokens, 3);
    EXPECT_THAT(answer->token_ids, ElementsAre(7, 8));
    EXPECT_THAT(answer->logits_digests, ElementsAre("aa", "bb"));
    EXPECT_TRUE(answer->facts.contains("times_ms"));
    EXPECT_FALSE(answer->facts.contains("token_ids"));
  }
}

TEST(AnswerStream, AnAnswerWithoutItsEndIsAnError) {
  AnswerStream stream([](std::string_view) {});
  ASSERT_TRUE(stream.push(whole.substr(0, whole.size() - 10)));
  EXPECT_FALSE(stream.done());
  EXPECT_EQ(stream.finish().error().reason(), Reason::worker_lost);
}

TEST(AnswerStream, AnErrorEventIsTheServersError) {
  AnswerStream stream([](std::string_view) {});
  const Result<void> pushed = stream.push(
      "data: {\"error\":{\"message\":\"the decode node was lost\",\"code\":\"worker_lost\"}}\n\n");
  ASSERT_FALSE(pushed);
  EXPECT_EQ(pushed.error().reason(), Reason::worker_lost);
  EXPECT_EQ(pushed.error().message(), "the decode node was lost");
}

TEST(AnswerStream, AnEventThatIsNoJsonIsRefused) {
  AnswerStream stream([](std::string_view) {});
  EXPECT_EQ(stream.push("data: {oops\n\n").error().reason(), Reason::protocol_violation);
}

TEST(AnswerStream, AnErrorBodyGivesItsReasonByStatusAndCode) {
  const Error error = error_of(
      400, R"({"error":{"message":"too long","param":"prompt","code":"context_length_exceeded"}})");
  EXPECT_EQ(error.reason(), Reason::context_length_exceeded);
  EXPECT_EQ(error.message(), "prompt: too long");
  EXPECT_EQ(error_of(400, "<html>").reason(), Reason::invalid_request);
  EXPECT_EQ(error_of(500, "").message(), "the server answered with status 500");
}

}  // namespace
}  // namespace baton::cli
