#include "baton/router/core/prefix_memory.h"

#include <gtest/gtest.h>

namespace baton::router {
namespace {

PromptKeys keys_of(std::size_t tokens, TokenId last = 0) {
  std::vector<TokenId> ids(tokens, 3);
  if (last != 0) ids.back() = last;
  PromptKeys keys;
  keys.extend(ids);
  return keys;
}

const WorkerRef d0{NodeId("d0"), Epoch(1)};
const WorkerRef d1{NodeId("d1"), Epoch(1)};

TEST(PromptKeys, NameAllThatComesBeforeThem) {
  std::vector<TokenId> ids(200, 3);
  PromptKeys keys;
  keys.extend(std::span(ids).first(70));
  EXPECT_EQ(keys.keys().size(), 1U);
  keys.extend(ids);
  const std::vector<std::uint64_t> whole(keys.keys().begin(), keys.keys().end());
  ASSERT_EQ(whole.size(), 3U);
  EXPECT_NE(whole[1], whole[2]);  // of equal ids
  ids[0] = 4;
  PromptKeys others;
  others.extend(ids);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_NE(others.keys()[i], whole[i]);
}

TEST(PrefixMemory, TheLongestKnownBeginningCountsByNode) {
  PrefixMemory memory;
  memory.add(d0, keys_of(130).keys(), 0);
  memory.add(d1, keys_of(70).keys(), 0);
  const auto known = memory.known(keys_of(1000).keys());
  EXPECT_EQ(known.at(d0.node), 128);
  EXPECT_EQ(known.at(d1.node), 64);
  EXPECT_TRUE(memory.known(keys_of(64, 7).keys()).empty());
}

TEST(PrefixMemory, ANodesNewLifeHasNothing) {
  PrefixMemory memory;
  memory.add(d0, keys_of(130).keys(), 0);
  memory.add({d0.node, Epoch(2)}, keys_of(64, 7).keys(), 0);
  EXPECT_TRUE(memory.known(keys_of(1000).keys()).empty());
}

TEST(PrefixMemory, ANodeThatIsGoneIsForgotten) {
  PrefixMemory memory;
  memory.add(d0, keys_of(130).keys(), 0);
  memory.add(d1, keys_of(130).keys(), 0);
  memory.forget(d0.node);
  const auto known = memory.known(keys_of(1000).keys());
  EXPECT_EQ(known.size(), 1U);
  EXPECT_EQ(known.at(d1.node), 128);
}

TEST(PrefixMemory, TheOldestAreForgotten) {
  PrefixMemory memory;
  constexpr std::int64_t two_keys = 130;
  memory.add(d0, keys_of(64, 5).keys(), two_keys);
  memory.add(d0, keys_of(64, 6).keys(), two_keys);
  memory.add(d0, keys_of(64, 7).keys(), two_keys);
  EXPECT_TRUE(memory.known(keys_of(64, 5).keys()).empty());
  EXPECT_EQ(memory.known(keys_of(64, 7).keys()).at(d0.node), 64);
}

}  // namespace
}  // namespace baton::router
