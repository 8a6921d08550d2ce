// Text that is encoded and decoded is the same text: nothing is cleaned up, added or lost (API-26).
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "baton/tokenizer/detokenizer.h"

#include "fixture.h"

namespace baton::test {
namespace {

using tokenizer::DecodeOptions;
using tokenizer::Detokenizer;
using tokenizer::Tokenizer;

constexpr std::size_t wanted_lines = 5000;

/// Lines of this project's own code and documents, in a fixed order, made longer by joining when
/// the tree is small.
std::vector<std::string> lines_of_code() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(std::string(BATON_SOURCE_DIR) + "/common")) {
    const std::string extension = entry.path().extension();
    if (extension == ".h" || extension == ".cc" || extension == ".py" || extension == ".md") {
      files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  std::vector<std::string> lines;
  for (const auto& file : files) {
    std::ifstream in(file);
    for (std::string line; std::getline(in, line);) lines.push_back(line + "\n");
  }
  std::mt19937_64 random(3);
  while (!lines.empty() && lines.size() < wanted_lines) {
    lines.push_back(lines[random() % lines.size()] + lines[random() % lines.size()]);
  }
  lines.resize(wanted_lines);
  for (const std::string& text : load_golden("llama3_style").texts) lines.push_back(text);
  return lines;
}

/// As SmolLM2's vocabulary lacks six control characters, which encoding drops as the reference
/// does.
std::string without_dropped(const Tokenizer& tokenizer, std::string text) {
  std::string kept;
  for (const char c : text) {
    const bool is_control = static_cast<unsigned char>(c) < 0x20;
    if (!is_control || !ids_of(tokenizer, std::string(1, c)).empty()) kept += c;
  }
  return kept;
}

void expect_round_trips(const Tokenizer& tokenizer, const DecodeOptions& options) {
  const auto lines = lines_of_code();
  ASSERT_GE(lines.size(), wanted_lines);
  for (const std::string& line : lines) {
    const std::string text = without_dropped(tokenizer, line);
    const auto ids = ids_of(tokenizer, text);
    ASSERT_EQ(tokenizer.decode(ids, options), text);
    Detokenizer detokenizer(tokenizer, options);
    std::string streamed;
    for (const TokenId id : ids) streamed += detokenizer.push(id);
    ASSERT_EQ(streamed + detokenizer.flush(), text);
  }
}

TEST(RoundTrip, DefaultModelKeepsEveryLine) {
  const auto path = model_path();
  if (!path) GTEST_SKIP() << no_model;
  expect_round_trips(model_tokenizer(*path), {});
}

TEST(RoundTrip, ByteLevelKeepsEveryLine) {
  expect_round_trips(fixture_tokenizer("llama3_style"), {});
}

TEST(RoundTrip, SpacePrefixIsStrippedWhenAsked) {
  const Tokenizer tokenizer = fixture_tokenizer("llama2_style");
  const auto ids = ids_of(tokenizer, "Hello world");
  EXPECT_EQ(tokenizer.decode(ids), " Hello world");
  EXPECT_EQ(tokenizer.decode(ids, {.strip_space_prefix = true}), "Hello world");
  EXPECT_EQ(tokenizer.decode(ids_of(tokenizer, "  two"), {.strip_space_prefix = true}), "  two");
}

/// A sentencepiece vocabulary spells a space as U+2581, so a text with that character is not kept.
void expect_pieces_round_trip(const char* name, const DecodeOptions& options) {
  const Tokenizer tokenizer = fixture_tokenizer(name);
  for (const std::string& line : lines_of_code()) {
    if (line.find("\xE2\x96\x81") != std::string::npos) continue;
    ASSERT_EQ(tokenizer.decode(ids_of(tokenizer, line), options), line);
  }
}

TEST(RoundTrip, SentencePieceKeepsEveryLine) {
  expect_pieces_round_trip("gemma_style", {});
  expect_pieces_round_trip("llama2_style", {.strip_space_prefix = true});
}

TEST(RoundTrip, IllFormedBytesAreKeptAsBytes) {
  std::mt19937_64 random(4);
  for (const char* name : {"llama3_style", "gemma_style"}) {
    const Tokenizer tokenizer = fixture_tokenizer(name);
    for (int round = 0; round < 300; ++round) {
      std::string bytes(random() % 60, '\0');
      for (char& byte : bytes) byte = static_cast<char>(random());
      std::string joined;
      for (const TokenId id : ids_of(tokenizer, bytes)) joined += tokenizer.bytes(id);
      ASSERT_EQ(joined, bytes) << name;
    }
  }
}

}  // namespace
}  // namespace baton::test
