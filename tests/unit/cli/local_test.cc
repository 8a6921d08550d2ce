#include "local.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <unistd.h>

#include "support/models/random_model.h"

namespace baton::cli {
namespace {

using testing::ElementsAreArray;

class LocalModelTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    path() = std::filesystem::temp_directory_path() /
             ("baton-local-" + std::to_string(getpid()) + ".gguf");
    test::RandomModel spec;
    spec.vocabulary = test::text_vocabulary;
    spec.text = true;
    test::write_random_model(spec, path());
  }
  static void TearDownTestSuite() { std::filesystem::remove(path()); }

  static std::filesystem::path& path() {
    static std::filesystem::path path;
    return path;
  }
  static std::unique_ptr<LocalModel> load(bool sequential_prefill = false) {
    worker::WorkerConfig config;
    config.model = path();
    config.threads = 1;
    config.cache_tokens = 1024;
    config.sequential_prefill = sequential_prefill;
    return LocalModel::load(config, {}).value();
  }
  static Prompt prompt(std::string text, std::int64_t max_tokens) {
    Prompt out;
    out.content = std::move(text);
    out.sampling.max_tokens = max_tokens;
    out.sampling.ignore_eos = true;
    out.sampling.logits_digest = true;
    return out;
  }
};

TEST_F(LocalModelTest, StreamsTheTextThatItAnswersWith) {
  std::string streamed;
  const Answer answer =
      load()->complete(prompt("abc", 20), [&](std::string_view text) { streamed += text; }).value();
  EXPECT_EQ(streamed, answer.text);
  EXPECT_EQ(answer.token_ids.size(), 20U);
  EXPECT_EQ(answer.logits_digests.size(), 20U);
  EXPECT_EQ(answer.finish_reason, "length");
  EXPECT_EQ(answer.prompt_tokens, 7);  // <s>, a space of three bytes, three letters
}

TEST_F(LocalModelTest, ABatchAnswersInOrderAndAsEachPromptAlone) {
  std::vector<Prompt> prompts = {prompt("a longer prompt than the others", 3), prompt("b", 17),
                                 prompt("c", 1), prompt("d", 9)};
  prompts[2].content = std::vector<TokenId>{1'000'000};
  std::vector<std::size_t> order;
  std::vector<Result<Answer>> answers;
  load()->complete_all(prompts, 3, [&](std::size_t index, const Result<Answer>& answer) {
    order.push_back(index);
    answers.push_back(answer);
  });
  EXPECT_THAT(order, ElementsAreArray({0, 1, 2, 3}));
  EXPECT_EQ(answers[2].error().reason(), Reason::invalid_request);
  const auto alone = load(/*sequential_prefill=*/true);
  for (const std::size_t index : {0U, 1U, 3U}) {
    const Answer expected = alone->complete(prompts[index], [](std::string_view) {}).value();
    EXPECT_EQ(answers[index].value().token_ids, expected.token_ids) << index;
    EXPECT_EQ(answers[index].value().logits_digests, expected.logits_digests) << index;
  }
}

TEST_F(LocalModelTest, AChatGoesThroughTheModelsTemplate) {
  Prompt chat = prompt("", 4);
  chat.content = std::vector<Turn>{{"user", "hi"}};
  const auto model = load();
  const Answer through_template = model->complete(chat, [](std::string_view) {}).value();
  const Answer spelled = model->complete(prompt("[user]hi", 4), [](std::string_view) {}).value();
  EXPECT_EQ(through_template.token_ids, spelled.token_ids);
}

}  // namespace
}  // namespace baton::cli
