#include "prompt.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <unistd.h>

namespace baton::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Prompt, IdsMayBeSeparatedByBlanksCommasOrBrackets) {
  EXPECT_THAT(parse_ids("[1, 2,3]\n4").value(), ElementsAre(1, 2, 3, 4));
  for (const char* bad : {"", "1 x", "-1", "1.5", "99999999999"}) {
    EXPECT_EQ(parse_ids(bad).error().reason(), Reason::invalid_request) << bad;
  }
}

TEST(Prompt, ABatchLineTakesWhatItLeavesOutFromTheCommandLine) {
  Sampling defaults;
  defaults.max_tokens = 5;
  defaults.logits_digest = true;
  const Prompt text = parse_batch_line(R"({"prompt": "a", "seed": 4})", defaults, false).value();
  EXPECT_EQ(std::get<std::string>(text.content), "a");
  EXPECT_EQ(text.sampling.max_tokens, 5);
  EXPECT_EQ(text.sampling.seed, 4);
  EXPECT_TRUE(text.sampling.logits_digest);
  const Prompt ids =
      parse_batch_line(R"({"prompt": [3, 1], "max_tokens": 2})", defaults, true).value();
  EXPECT_THAT(std::get<std::vector<TokenId>>(ids.content), ElementsAre(3, 1));
  EXPECT_EQ(ids.sampling.max_tokens, 2);
  const Prompt chat = parse_batch_line(R"({"prompt": "a"})", defaults, true).value();
  EXPECT_THAT(std::get<std::vector<Turn>>(chat.content), ElementsAre(Turn{"user", "a"}));
}

TEST(Prompt, AWrongBatchLineIsRefusedAndNamed) {
  for (const char* bad : {"x", "[]", "{}", R"({"prompt": 3})", R"({"prompt": ["a"]})",
                          R"({"prompt": "a", "n": 2})", R"({"prompt": "a", "max_tokens": 0})",
                          R"({"prompt": "a", "max_tokens": 1.5})", R"({"prompt": [-1]})"}) {
    EXPECT_FALSE(parse_batch_line(bad, {}, false)) << bad;
  }
  const auto path =
      std::filesystem::temp_directory_path() / ("baton-batch-" + std::to_string(getpid()));
  std::ofstream(path) << "{\"prompt\": \"a\"}\n\n{\"prompt\": 1}\n";
  const auto read = read_batch(path.string(), {}, false);
  std::filesystem::remove(path);
  ASSERT_FALSE(read);
  EXPECT_THAT(read.error().message(), HasSubstr(path.string() + ":3: prompt must be"));
}

TEST(Prompt, AnAnswerIsOneLineOfJsonWithTheFactsBesideItsOwnFields) {
  Answer answer;
  answer.text = "a\nb";
  answer.token_ids = {1, 2};
  answer.logits_digests = {"d1", "d2"};
  answer.finish_reason = "stop";
  answer.prompt_tokens = 3;
  answer.facts = {{"attempts", 1}};
  EXPECT_EQ(answer_json(answer),
            R"({"text":"a\nb","token_ids":[1,2],"logits_digests":["d1","d2"],)"
            R"("finish_reason":"stop","prompt_tokens":3,"completion_tokens":2,"attempts":1})");
  EXPECT_EQ(error_json(Error(Reason::no_worker, "none")),
            R"({"error":{"message":"none","code":"no_worker"}})");
}

}  // namespace
}  // namespace baton::cli
