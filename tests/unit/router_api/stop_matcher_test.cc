#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "baton/router/api/text_stream.h"

namespace baton::router {
namespace {

/// The obvious way: byte by byte, the first end of any stop string decides.
std::string reference(const std::string& text, const std::vector<std::string>& stops) {
  for (std::size_t end = 1; end <= text.size(); ++end) {
    std::size_t begin = std::string::npos;
    for (const std::string& stop : stops) {
      if (end >= stop.size() && text.compare(end - stop.size(), stop.size(), stop) == 0) {
        begin = std::min(begin, end - stop.size());
      }
    }
    if (begin != std::string::npos) return text.substr(0, begin);
  }
  return text;
}

TEST(StopMatcher, StopsSpanTokens) {  // API-11
  StopMatcher matcher({"k l m"});
  EXPECT_EQ(matcher.push("go"), "go");
  EXPECT_EQ(matcher.push(" k"), " ");
  EXPECT_EQ(matcher.push(" l"), "");
  EXPECT_EQ(matcher.push(" m and more"), "");
  EXPECT_TRUE(matcher.matched());
  EXPECT_EQ(matcher.push("x") + matcher.flush(), "");
}

TEST(StopMatcher, WhatOnlyLookedLikeAStopIsGivenInTheEnd) {
  StopMatcher matcher({"END"});
  EXPECT_EQ(matcher.push("the EN"), "the ");
  EXPECT_EQ(matcher.held_bytes(), 2U);
  EXPECT_EQ(matcher.flush(), "EN");
  EXPECT_FALSE(matcher.matched());
}

TEST(StopMatcher, TheStopThatIsCompleteFirstCutsWhateverThePieces) {
  for (const std::vector<std::string>& pieces :
       {std::vector<std::string>{"xabcd"}, {"xab", "cd"}, {"x", "a", "b", "c", "d"}}) {
    StopMatcher matcher({"abcd", "bc"});
    std::string out;
    for (const std::string& piece : pieces) out += matcher.push(piece);
    EXPECT_EQ(out + matcher.flush(), "xa");
  }
}

TEST(StopMatcher, AnySplitOfAnyTextGivesTheReferencesCut) {  // API-09
  std::mt19937_64 random(11);
  const auto word = [&](std::size_t most) {
    std::string out;
    const std::size_t length = 1 + random() % most;
    for (std::size_t i = 0; i < length; ++i) out += static_cast<char>('a' + random() % 3);
    return out;
  };
  for (int i = 0; i < 10'000; ++i) {
    std::vector<std::string> stops;
    const std::size_t count = random() % 5;
    for (std::size_t each = 0; each < count; ++each) stops.push_back(word(5));
    const std::string text = word(40);
    StopMatcher matcher(stops);
    std::string joined;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t length = 1 + random() % 6;
      joined += matcher.push(std::string_view(text).substr(at, length));
      ASSERT_TRUE(text.starts_with(joined));
      at += length;
    }
    joined += matcher.flush();
    ASSERT_EQ(joined, reference(text, stops)) << text << " " << testing::PrintToString(stops);
  }
}

}  // namespace
}  // namespace baton::router
