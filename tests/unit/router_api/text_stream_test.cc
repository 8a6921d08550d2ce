// Text that becomes final token by token, with stop strings over it.
#include "baton/router/api/text_stream.h"

#include <gtest/gtest.h>

namespace baton::router {
namespace {

/// Ids 1 to 3 are the bytes of one character, 4 and 5 are "a" and "b".
tokenizer::Tokenizer bytes() {
  tokenizer::TokenizerSpec spec;
  spec.algorithm = tokenizer::Algorithm::sentencepiece;
  spec.pre_tokenizer = tokenizer::PreTokenizer::none;
  spec.unknown = 0;
  spec.tokens = {"<unk>", "<0xE7>", "<0x95>", "<0x8C>", "a", "b"};
  spec.scores.assign(spec.tokens.size(), -1);
  spec.types.assign(spec.tokens.size(), tokenizer::TokenType::byte);
  spec.types[0] = tokenizer::TokenType::unknown;
  spec.types[4] = spec.types[5] = tokenizer::TokenType::normal;
  auto made = tokenizer::Tokenizer::make(spec);
  EXPECT_TRUE(made.has_value());
  return *made;
}

TEST(TextStream, ACharacterComesWithItsLastByte) {
  TextStream stream(bytes(), {});
  EXPECT_EQ(stream.push(4), "a");
  EXPECT_TRUE(stream.at_boundary());
  EXPECT_EQ(stream.push(1), "");
  EXPECT_FALSE(stream.at_boundary());
  EXPECT_EQ(stream.push(2), "");
  EXPECT_EQ(stream.push(3), "\xE7\x95\x8C");
  EXPECT_TRUE(stream.at_boundary());
}

TEST(TextStream, WhatCouldStillBecomeAStopIsNoBoundary) {
  TextStream stream(bytes(), {"ab"});
  EXPECT_EQ(stream.push(4), "");
  EXPECT_FALSE(stream.at_boundary());
  EXPECT_EQ(stream.push(4), "a");
  EXPECT_EQ(stream.push(5), "");
  EXPECT_TRUE(stream.stopped());
}

TEST(TextStream, TheEndBringsAnUnfinishedCharacterAndWhatLookedLikeAStop) {
  TextStream stream(bytes(), {"ab"});
  EXPECT_EQ(stream.push(4), "");
  EXPECT_EQ(stream.push(1), "");
  EXPECT_EQ(stream.flush(), "a\xEF\xBF\xBD");
}

TEST(TextStream, AStopThatIsCompleteAtTheEndCutsToo) {
  TextStream stream(bytes(), {"\xEF\xBF\xBD"});
  EXPECT_EQ(stream.push(4), "a");
  EXPECT_EQ(stream.push(1), "");
  EXPECT_EQ(stream.flush(), "");
  EXPECT_TRUE(stream.stopped());
}

}  // namespace
}  // namespace baton::router
