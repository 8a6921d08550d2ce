// Corners of sentencepiece merging that the trained vocabularies do not reach.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "fixture.h"

namespace baton::test {
namespace {

using tokenizer::Algorithm;
using tokenizer::PreTokenizer;
using tokenizer::Tokenizer;
using tokenizer::TokenizerSpec;
using tokenizer::TokenType;

struct Piece {
  std::string spelling;
  float score;
  TokenType type = TokenType::normal;
};

Tokenizer make(const std::vector<Piece>& pieces) {
  TokenizerSpec spec;
  spec.algorithm = Algorithm::sentencepiece;
  spec.pre_tokenizer = PreTokenizer::none;
  spec.unknown = 0;
  spec.tokens = {"<unk>"};
  spec.scores = {0};
  spec.types = {TokenType::unknown};
  for (const Piece& piece : pieces) {
    spec.tokens.push_back(piece.spelling);
    spec.scores.push_back(piece.score);
    spec.types.push_back(piece.type);
  }
  auto made = Tokenizer::make(spec);
  EXPECT_TRUE(made.has_value());
  return *made;
}

using Ids = std::vector<TokenId>;

TEST(PieceBpe, ARunOfUnknownCharactersIsOneUnknownToken) {
  const Tokenizer tokenizer = make({{"a", -1}});
  EXPECT_EQ(ids_of(tokenizer, "xyaz\xE6\x97\xA5q"), (Ids{0, 1, 0}));
}

TEST(PieceBpe, TheBestScoreMergesFirstAndTheLeftmostOfEquals) {
  const Tokenizer tokenizer = make({{"a", -9}, {"b", -9}, {"ab", -2}, {"ba", -1}, {"aa", -2}});
  EXPECT_EQ(ids_of(tokenizer, "aba"), (Ids{1, 4}));
  EXPECT_EQ(ids_of(tokenizer, "aaa"), (Ids{5, 1}));
}

TEST(PieceBpe, OfEqualScoresTheLeftmostMergesWhateverTheOrderOfIds) {
  const Tokenizer tokenizer = make({{"a", -9}, {"b", -9}, {"c", -9}, {"bc", -1}, {"ab", -1}});
  EXPECT_EQ(ids_of(tokenizer, "abc"), (Ids{5, 3}));
}

// Converters write the spaces of added tokens as spaces, those of trained ones as U+2581.
TEST(PieceBpe, SpacesOfUserDefinedTokensMayBeSpelledEitherWay) {
  const Tokenizer tokenizer = make({{"a", -9},
                                    {"\xE2\x96\x81", -9},
                                    {"  ", 0, TokenType::user_defined},
                                    {"\xE2\x96\x81x", 0, TokenType::user_defined}});
  EXPECT_EQ(ids_of(tokenizer, "a  a x a"), (Ids{1, 3, 1, 4, 2, 1}));
  EXPECT_EQ(tokenizer.bytes(3), "  ");
  EXPECT_EQ(tokenizer.bytes(4), " x");
}

TEST(PieceBpe, PartsThatAreNoTokensCanStillMerge) {
  const Tokenizer tokenizer = make({{"xy", -1}, {"xyz", -2}});
  EXPECT_EQ(ids_of(tokenizer, "xyz"), Ids{2});
  EXPECT_EQ(ids_of(tokenizer, "xz"), Ids{0});
}

TEST(PieceBpe, AnUnusedPieceIsTakenApartAgain) {
  const Tokenizer tokenizer = make({{"a", -3},
                                    {"b", -3},
                                    {"c", -3},
                                    {"ab", -1, TokenType::unused},
                                    {"abc", -2, TokenType::unused},
                                    {"abcc", -2}});
  EXPECT_EQ(ids_of(tokenizer, "ab"), (Ids{1, 2}));
  EXPECT_EQ(ids_of(tokenizer, "abc"), (Ids{1, 2, 3}));
  EXPECT_EQ(ids_of(tokenizer, "abcc"), Ids{6});
}

TEST(PieceBpe, ControlPiecesAreNeverMadeByMergingSec14) {
  const Tokenizer tokenizer =
      make({{"<", -3}, {"s", -3}, {">", -3}, {"<s", -1}, {"<s>", 0, TokenType::control}});
  EXPECT_EQ(ids_of(tokenizer, "<s>"), (Ids{4, 3}));
  EXPECT_EQ(ids_of(tokenizer, "<s>", true), Ids{5});
}

}  // namespace
}  // namespace baton::test
