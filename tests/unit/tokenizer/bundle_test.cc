// The bundle's bytes are canonical, and reading foreign bytes is safe (R7).
#include <random>
#include <string>

#include <gtest/gtest.h>

#include "fixture.h"

namespace baton::test {
namespace {

using tokenizer::parse_spec;
using tokenizer::serialise;
using tokenizer::TokenizerSpec;

TokenizerSpec fixture_spec(const char* name) {
  GgufWriter fields = fixture_fields(name);
  fields.add_string("tokenizer.chat_template", "{{ messages[0].content }}");
  return spec_of(fields);
}

std::string with_byte(std::string bytes, std::size_t at, char value) {
  bytes[at] = value;
  return bytes;
}

TEST(Bundle, GivesTheSameSpecAndTheSameBytesBack) {
  for (const char* name : {"llama3_style", "gemma_style", "llama2_style"}) {
    const TokenizerSpec spec = fixture_spec(name);
    const std::string bytes = serialise(spec);
    const auto parsed = parse_spec(bytes);
    ASSERT_TRUE(parsed.has_value()) << parsed.error().message();
    EXPECT_TRUE(*parsed == spec) << name;
    EXPECT_EQ(serialise(*parsed), bytes);
  }
}

TEST(Bundle, OfTheDefaultModelIsCompact) {
  const auto path = model_path();
  if (!path) GTEST_SKIP() << no_model;
  const TokenizerSpec spec = model_tokenizer(*path).spec();
  const std::string bytes = serialise(spec);
  EXPECT_LT(bytes.size(), std::size_t{1} << 20);
  const auto parsed = parse_spec(bytes);
  ASSERT_TRUE(parsed.has_value()) << parsed.error().message();
  EXPECT_TRUE(*parsed == spec);
}

TEST(Bundle, EveryFieldChangesTheBytes) {
  const TokenizerSpec spec = fixture_spec("llama3_style");
  const std::string bytes = serialise(spec);
  const auto differs = [&](auto change) {
    TokenizerSpec other = spec;
    change(other);
    return serialise(other) != bytes;
  };
  EXPECT_TRUE(differs([](TokenizerSpec& s) { s.add_bos = !s.add_bos; }));
  EXPECT_TRUE(differs([](TokenizerSpec& s) { s.add_eos = !s.add_eos; }));
  EXPECT_TRUE(differs([](TokenizerSpec& s) { s.add_space_prefix = !s.add_space_prefix; }));
  EXPECT_TRUE(differs([](TokenizerSpec& s) { s.eot = 3; }));
  EXPECT_TRUE(differs([](TokenizerSpec& s) { s.eom = 3; }));
  EXPECT_TRUE(differs([](TokenizerSpec& s) { s.unknown = 3; }));
  EXPECT_TRUE(differs([](TokenizerSpec& s) { s.padding = 3; }));
  EXPECT_TRUE(differs([](TokenizerSpec& s) { s.bos.reset(); }));
  EXPECT_TRUE(differs([](TokenizerSpec& s) { s.eos = 0; }));
  EXPECT_TRUE(differs([](TokenizerSpec& s) { s.tokens[5] += "x"; }));
  EXPECT_TRUE(differs([](TokenizerSpec& s) { s.types[5] = tokenizer::TokenType::unused; }));
  EXPECT_TRUE(differs([](TokenizerSpec& s) { std::swap(s.merges[0], s.merges[1]); }));
  EXPECT_TRUE(differs([](TokenizerSpec& s) { s.chat_template += " "; }));
  EXPECT_TRUE(differs([](TokenizerSpec& s) { s.pre_tokenizer = tokenizer::PreTokenizer::gpt2; }));
}

TEST(Bundle, CutAnywhereIsRefused) {
  for (const char* name : {"llama3_style", "gemma_style"}) {
    const std::string bytes = serialise(fixture_spec(name));
    for (std::size_t length = 0; length < bytes.size(); length += length < 200 ? 1 : 97) {
      const auto parsed = parse_spec(std::string_view(bytes).substr(0, length));
      ASSERT_TRUE(parsed.has_error()) << length;
      EXPECT_EQ(parsed.error().reason(), Reason::protocol_violation);
    }
    EXPECT_TRUE(parse_spec(bytes + '\0').has_error());
  }
}

TEST(Bundle, AnotherVersionIsToldApartFromDamage) {
  const std::string bytes = serialise(fixture_spec("llama3_style"));
  const auto newer = parse_spec(with_byte(bytes, 4, 2));
  ASSERT_TRUE(newer.has_error());
  EXPECT_EQ(newer.error().reason(), Reason::version_mismatch);
  const auto other = parse_spec(with_byte(bytes, 0, 'X'));
  ASSERT_TRUE(other.has_error());
  EXPECT_EQ(other.error().reason(), Reason::protocol_violation);
}

TEST(Bundle, LargeCountsInASmallBundleAllocateNothing) {
  // Head of a byte-level bundle without ids, then a count of 2^20 tokens and nothing more.
  std::string bytes("BTOK\x01\x00\x01\x00\x00\x00\x00\x00\x00\x00", 14);
  bytes += "\x80\x80\x40";
  const auto parsed = parse_spec(bytes);
  ASSERT_TRUE(parsed.has_error());
  EXPECT_EQ(parsed.error().message(), "tokenizer bundle: bad number of tokens");
}

TEST(Bundle, ANumberThatIsNotInItsShortestFormIsRefused) {
  std::string bytes("BTOK\x81\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00", 16);
  const auto parsed = parse_spec(bytes);
  ASSERT_TRUE(parsed.has_error());
  EXPECT_EQ(parsed.error().message(), "tokenizer bundle: no version");
}

TEST(Bundle, DamagedBytesNeverGiveASpecThatFailsItsCheck) {
  std::mt19937_64 random(5);
  for (const char* name : {"llama3_style", "gemma_style"}) {
    const std::string bytes = serialise(fixture_spec(name));
    for (int round = 0; round < 400; ++round) {
      std::string damaged = bytes;
      // The first bytes hold the counts; most of the rest is spelling.
      const std::size_t range = round % 2 == 0 ? 40 : damaged.size();
      damaged[random() % range] = static_cast<char>(random());
      const auto parsed = parse_spec(damaged);
      if (parsed.has_error()) continue;
      EXPECT_TRUE(tokenizer::check(*parsed).has_value());
      EXPECT_EQ(serialise(*parsed), damaged);
      (void)tokenizer::Tokenizer::make(*parsed);
    }
  }
}

}  // namespace
}  // namespace baton::test
