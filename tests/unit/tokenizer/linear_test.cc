// Tokenising takes time in proportion to the text, whatever the text (R18, SEC-13).
#include <algorithm>
#include <ctime>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <malloc.h>

#include "baton/tokenizer/detokenizer.h"

#include "fixture.h"

namespace baton::test {
namespace {

using tokenizer::Tokenizer;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__OPTIMIZE__)
constexpr bool times_count = false;  // the texts still run, for what the sanitizer finds
#else
constexpr bool times_count = true;
#endif

constexpr std::size_t megabyte = std::size_t{1} << 20;

std::string repeat_to(std::string_view piece, std::size_t size) {
  std::string text;
  text.reserve(size + piece.size());
  while (text.size() < size) text += piece;
  text.resize(size - size % piece.size());
  return text;
}

/// Seconds that this thread computed: what else runs on the machine does not count.
double seconds(const std::function<void()>& work) {
  const auto now = [] {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  const double begin = now();
  work();
  return now() - begin;
}

const std::vector<std::string>& hostile_pieces() {
  static const std::vector<std::string> pieces = {
      "a",
      " ",
      "\n",
      "1",
      "=",
      "'",
      "'l",
      " \n",
      "\xF0\x9F\x98\x80",
      "\xE6\x97\xA5",
      "<",
      "<|",
      "<tool_call",
      "ab",
      "aab",
      "Hello world. ",
      "\xC2\xA0",
      "\t \r",
      "a\xCC\x81",
      "\xFF",
      "e ",
  };
  return pieces;
}

/// A megabyte of one piece within a second, and within 2.3 times what half of it takes.
void expect_linear(const Tokenizer& tokenizer, const std::string& piece, bool parse_special) {
  const std::string one = repeat_to(piece, megabyte / 2);
  const std::string two = repeat_to(piece, megabyte);
  // Caches shared with other programs make single runs slower, never quicker: the best of some.
  double first = 1e9;
  double second = 1e9;
  for (int round = 0; round < 40; ++round) {
    first = std::min(first, seconds([&] { (void)ids_of(tokenizer, one, parse_special); }));
    second = std::min(second, seconds([&] { (void)ids_of(tokenizer, two, parse_special); }));
    if (!times_count || (second <= 1.0 && second <= 2.3 * first)) break;
  }
  if (!times_count) return;
  EXPECT_LE(second, 1.0) << escaped(piece);
  EXPECT_LE(second, 2.3 * first) << escaped(piece) << ": half a megabyte took " << first << " s";
}

void expect_linear(const Tokenizer& tokenizer) {
  // glibc gives large free blocks back to the system, so that above some size every run pays for
  // its pages again and below it none does: a step that is not the tokenizer's. Here blocks stay.
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  for (const std::string& piece : hostile_pieces()) expect_linear(tokenizer, piece, false);
}

TEST(Linear, ByteLevelR18) { expect_linear(fixture_tokenizer("llama3_style")); }

TEST(Linear, SmollmDigitsR18) { expect_linear(fixture_tokenizer("llama3_style", "smollm")); }

TEST(Linear, SentencePieceR18) { expect_linear(fixture_tokenizer("gemma_style")); }

TEST(Linear, DefaultModelR18) {
  const auto path = model_path();
  if (!path) GTEST_SKIP() << no_model;
  expect_linear(model_tokenizer(*path));
}

TEST(Linear, ManyMarkersR18) {
  const Tokenizer tokenizer = fixture_tokenizer("llama2_style");
  for (const char* const piece : {"<|user|>", "<|user|>a", "<|use", "<extra>", "a<extra> "}) {
    expect_linear(tokenizer, piece, true);
  }
}

TEST(Linear, FiveMegabytesOfOneLetterNeedNoDeepStackSec13) {
  const Tokenizer tokenizer = fixture_tokenizer("llama3_style");
  const auto ids = tokenizer.encode(std::string(5 * megabyte, 'a'));
  ASSERT_TRUE(ids.has_value());
  EXPECT_GT(ids->size(), 1U);
}

}  // namespace
}  // namespace baton::test
