// Ids equal those of the reference implementations, text by text (LDR-10).
#include <string>

#include <gtest/gtest.h>

#include "fixture.h"

namespace baton::test {
namespace {

void expect_reference(const tokenizer::Tokenizer& tokenizer, const Golden& golden) {
  ASSERT_GE(golden.texts.size(), 2000U);
  ASSERT_EQ(golden.plain.size(), golden.texts.size());
  ASSERT_EQ(golden.parsed.size(), golden.texts.size());
  int differences = 0;
  for (std::size_t i = 0; i < golden.texts.size() && differences < 5; ++i) {
    for (const bool parse : {false, true}) {
      const auto& wanted = parse ? golden.parsed[i] : golden.plain[i];
      const auto ids = ids_of(tokenizer, golden.texts[i], parse);
      if (ids == wanted) continue;
      ++differences;
      EXPECT_EQ(ids, wanted) << "text " << i << (parse ? " parsed: " : " plain: ")
                             << escaped(golden.texts[i]);
    }
  }
}

TEST(Golden, DefaultModelEqualsTheReference) {
  const auto path = model_path();
  if (!path) GTEST_SKIP() << no_model;
  expect_reference(model_tokenizer(*path), load_golden("smollm2"));
}

TEST(Golden, Gemma3EqualsTheReference) {
  const auto path = gemma_path();
  if (!path) GTEST_SKIP() << "opt-in: set BATON_TEST_GEMMA to gemma-3-270m-q4_k_m.gguf";
  expect_reference(model_tokenizer(*path), load_golden("gemma3"));
}

TEST(Golden, Llama3StyleEqualsTheReference) {
  expect_reference(fixture_tokenizer("llama3_style"), load_golden("llama3_style"));
}

TEST(Golden, Qwen2StyleEqualsTheReference) {
  expect_reference(fixture_tokenizer("llama3_style", "qwen2"), load_golden("qwen2_style"));
}

TEST(Golden, Gpt2StyleEqualsTheReference) {
  expect_reference(fixture_tokenizer("llama3_style", "gpt-2"), load_golden("gpt2_style"));
}

TEST(Golden, GemmaStyleEqualsTheReference) {
  expect_reference(fixture_tokenizer("gemma_style"), load_golden("gemma_style"));
}

TEST(Golden, Llama2StyleEqualsTheReference) {
  expect_reference(fixture_tokenizer("llama2_style"), load_golden("llama2_style"));
}

}  // namespace
}  // namespace baton::test
