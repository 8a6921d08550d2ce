// Streams of tokens become text that is final, whole and append-only, whatever the cut.
#include "baton/tokenizer/detokenizer.h"

#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "fixture.h"

namespace baton::test {
namespace {

using tokenizer::Detokenizer;
using tokenizer::Tokenizer;
using tokenizer::Utf8Stream;

constexpr std::string_view bad = "\xEF\xBF\xBD";

std::string repeated(std::string_view piece, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += piece;
  return text;
}

/// A strict check written apart from the product's decoder.
bool is_well_formed(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const std::size_t length = byte < 0x80 ? 1 : byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : 2;
    if ((byte >= 0x80 && byte < 0xC2) || byte > 0xF4 || i + length > text.size()) return false;
    std::uint32_t value = length == 1 ? byte : byte & (0xFFU >> (length + 1));
    for (std::size_t k = 1; k < length; ++k) {
      const auto next = static_cast<unsigned char>(text[i + k]);
      if ((next & 0xC0U) != 0x80) return false;
      value = (value << 6) | (next & 0x3FU);
    }
    const std::uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    if (value < least[length] || value > 0x10FFFF || (value >= 0xD800 && value < 0xE000)) {
      return false;
    }
    i += length;
  }
  return true;
}

struct ByteCase {
  std::string_view bytes;
  int bad_count;  ///< U+FFFD that Python's and WHATWG's decoders give
};

// API-24: ill-formed sequences of every kind.
constexpr ByteCase byte_cases[] = {
    {"\xC3", 1},                  // cut after the lead of 2
    {"\xE2\x82", 1},              // cut inside 3
    {"\xF0\x9F\x98", 1},          // cut inside 4
    {"\x80", 1},                  // a continuation alone
    {"\xBF\xBF", 2},              // two of them
    {"\xC0\x80", 2},              // overlong NUL
    {"\xC1\xBF", 2},              // overlong in 2
    {"\xE0\x80\x80", 3},          // overlong in 3
    {"\xE0\x9F\xBF", 3},          // overlong in 3, largest
    {"\xF0\x80\x80\x80", 4},      // overlong in 4
    {"\xED\xA0\x80", 3},          // surrogate, first
    {"\xED\xBF\xBF", 3},          // surrogate, last
    {"\xF4\x90\x80\x80", 4},      // above U+10FFFF
    {"\xF5\x80\x80\x80", 4},      // no such lead
    {"\xFE\xFF", 2},              // no such bytes
    {"\xE2\x82\xE2\x82", 2},      // two cut ones
    {"\xF0\x9F\xC3", 2},          // cut by another lead
    {"\xF8\x88\x80\x80\x80", 5},  // five bytes long
};

TEST(Utf8Stream, IllFormedBytesBecomeReplacementCharactersApi24) {
  for (const ByteCase& c : byte_cases) {
    for (const auto& [before, after] : {std::pair<std::string, std::string>{"", ""},
                                        {"x \xE7\x95\x8C", ""},
                                        {"", "y"},
                                        {"x\xF0\x9F\x98\x80", "\xE7\x95\x8Cz"}}) {
      const std::string input = before + std::string(c.bytes) + after;
      const std::string wanted = before + repeated(bad, c.bad_count) + after;
      Utf8Stream whole;
      std::string text = whole.push(input);
      text += whole.flush();
      EXPECT_EQ(text, wanted);
      Utf8Stream bytewise;
      std::string streamed;
      for (const char byte : input) streamed += bytewise.push({&byte, 1});
      streamed += bytewise.flush();
      EXPECT_EQ(streamed, wanted);
    }
  }
}

TEST(Utf8Stream, HoldsAnUnfinishedCodePointAndNothingElseApi25) {
  Utf8Stream stream;
  EXPECT_EQ(stream.push("x \xE7\x95"), "x ");
  EXPECT_EQ(stream.held_bytes(), 2U);
  EXPECT_EQ(stream.push("\x8C\xF0"), "\xE7\x95\x8C");
  EXPECT_EQ(stream.push("p"), std::string(bad) + "p");
  EXPECT_EQ(stream.flush(), "");
  EXPECT_EQ(stream.held_bytes(), 0U);
}

TEST(Utf8Stream, AcceptsTheEdgesOfEveryLength) {
  const std::string_view text(
      "\x00\x7F\xC2\x80\xDF\xBF\xE0\xA0\x80\xED\x9F\xBF\xEE\x80\x80\xEF\xBF\xBF\xF0\x90\x80\x80"
      "\xF4\x8F\xBF\xBF",
      26);
  Utf8Stream stream;
  EXPECT_EQ(stream.push(text), text);
}

TEST(Utf8Stream, EveryCutGivesTheSameTextAndWholeCodePoints) {
  std::mt19937_64 random(1);
  const Golden golden = load_golden("llama3_style");
  for (std::size_t i = 0; i < golden.texts.size(); i += 2) {
    std::string text = golden.texts[i];
    const bool damaged = i % 4 == 0 && !text.empty();
    if (damaged) text[random() % text.size()] = static_cast<char>(random());
    Utf8Stream whole;
    std::string wanted = whole.push(text);
    wanted += whole.flush();
    if (!damaged) {
      ASSERT_EQ(wanted, text);
    }
    Utf8Stream stream;
    std::string streamed;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t length = 1 + random() % 4;
      const std::string piece = stream.push(std::string_view(text).substr(at, length));
      ASSERT_TRUE(is_well_formed(piece));
      at += length;
      streamed += piece;
      ASSERT_LE(stream.held_bytes(), 3U);
    }
    streamed += stream.flush();
    ASSERT_EQ(streamed, wanted) << "text " << i;
  }
}

/// Ids of single bytes: the finest cut that a vocabulary allows.
std::vector<TokenId> byte_tokens(const Tokenizer& tokenizer, std::string_view bytes) {
  std::vector<TokenId> ids;
  for (const char byte : bytes) {
    TokenId id = 0;
    while (tokenizer.bytes(id) != std::string_view(&byte, 1)) ++id;
    ids.push_back(id);
  }
  return ids;
}

TEST(Detokenizer, ACharacterSplitOverTokensIsSentOnceApi25) {
  const Tokenizer tokenizer = fixture_tokenizer("llama3_style");
  Detokenizer detokenizer(tokenizer);
  std::vector<std::string> answers;
  for (const TokenId id : byte_tokens(tokenizer, "x \xE7\x95\x8Cpq")) {
    answers.push_back(detokenizer.push(id));
  }
  EXPECT_EQ(answers, (std::vector<std::string>{"x", " ", "", "", "\xE7\x95\x8C", "p", "q"}));
  EXPECT_EQ(detokenizer.text_bytes(), 7U);
  EXPECT_TRUE(detokenizer.at_boundary());
}

TEST(Detokenizer, ScriptedBrokenTokensGiveWellFormedTextApi23) {
  const Tokenizer tokenizer = fixture_tokenizer("gemma_style");
  for (const std::string_view bytes : {"\xC3",
                                       "\xE2\x82"
                                       "A",
                                       "\xF5\x80", "\xC0\x80", "ok\xF0\x9F"}) {
    Detokenizer detokenizer(tokenizer);
    std::string streamed;
    std::uint64_t before = 0;
    const auto ids = byte_tokens(tokenizer, bytes);
    for (const TokenId id : ids) {
      streamed += detokenizer.push(id);
      EXPECT_GE(detokenizer.text_bytes(), before);
      before = detokenizer.text_bytes();
      EXPECT_EQ(before, streamed.size());
    }
    streamed += detokenizer.flush();
    EXPECT_TRUE(is_well_formed(streamed));
    EXPECT_EQ(streamed, tokenizer.decode(ids));
  }
}

TEST(Detokenizer, RandomIdsStreamToWhatTheWholeDecodes) {
  std::mt19937_64 random(2);
  for (const char* name : {"llama3_style", "gemma_style", "llama2_style"}) {
    const Tokenizer tokenizer = fixture_tokenizer(name);
    for (int round = 0; round < 200; ++round) {
      Detokenizer detokenizer(tokenizer);
      std::vector<TokenId> ids;
      std::string streamed;
      for (int i = 0; i < 40; ++i) {
        // Every third an id of a single byte, which mostly is no whole code point.
        const auto range = i % 3 == 0 ? std::size_t{260} : tokenizer.vocabulary_size();
        ids.push_back(static_cast<TokenId>(random() % range));
        streamed += detokenizer.push(ids.back());
      }
      streamed += detokenizer.flush();
      ASSERT_EQ(streamed, tokenizer.decode(ids));
      ASSERT_TRUE(is_well_formed(streamed));
    }
  }
}

void expect_reference_texts(const Tokenizer& tokenizer, std::string_view name) {
  const auto cases = load_decoded(name);
  ASSERT_GE(cases.size(), 300U);
  for (const Decoded& c : cases) EXPECT_EQ(tokenizer.decode(c.ids), c.text);
}

TEST(Detokenizer, DecodesAsTheReference) {
  expect_reference_texts(fixture_tokenizer("llama3_style"), "llama3_style");
}

TEST(Detokenizer, DecodesTheDefaultModelAsTheReference) {
  const auto path = model_path();
  if (!path) GTEST_SKIP() << no_model;
  expect_reference_texts(model_tokenizer(*path), "smollm2");
}

TEST(Detokenizer, ACopyContinuesFromTheSamePlace) {
  const Tokenizer tokenizer = fixture_tokenizer("llama3_style");
  const auto ids = byte_tokens(tokenizer, "\xF0\x9F\x98\x80");
  Detokenizer one(tokenizer);
  EXPECT_EQ(one.push(ids[0]), "");
  EXPECT_EQ(one.push(ids[1]), "");
  EXPECT_FALSE(one.at_boundary());
  Detokenizer two = one;
  EXPECT_EQ(one.flush(), bad);
  EXPECT_EQ(two.push(ids[2]), "");
  EXPECT_EQ(two.push(ids[3]), "\xF0\x9F\x98\x80");
}

TEST(Detokenizer, AnIdOutsideTheVocabularyHasNoText) {
  const Tokenizer tokenizer = fixture_tokenizer("llama3_style");
  Detokenizer detokenizer(tokenizer);
  EXPECT_EQ(detokenizer.push(-1), "");
  EXPECT_EQ(detokenizer.push(static_cast<TokenId>(tokenizer.vocabulary_size())), "");
  EXPECT_EQ(tokenizer.bytes(-1), "");
}

TEST(Detokenizer, BytesOfTokensJoinToTheTextsBytes) {
  const Tokenizer tokenizer = fixture_tokenizer("gemma_style");
  const std::string text = "a\xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x92\xBB b";
  std::string joined;
  for (const TokenId id : ids_of(tokenizer, text)) joined += tokenizer.bytes(id);
  EXPECT_EQ(joined, text);
}

}  // namespace
}  // namespace baton::test
