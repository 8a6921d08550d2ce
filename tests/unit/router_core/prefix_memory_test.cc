#include "baton/router/core/prefix_memory.h"

#include <gtest/gtest.h>

namespace baton::router {
namespace {

prefix::Chain chain_of(std::size_t tokens, TokenId last = 0) {
  std::vector<TokenId> ids(tokens, 3);
  if (last != 0) ids.back() = last;
  prefix::Chain chain(prefix::Key(), PrefixMemory::block_positions);
  chain.extend(ids);
  return chain;
}

const WorkerRef d0{NodeId("d0"), Epoch(1)};
const WorkerRef d1{NodeId("d1"), Epoch(1)};

TEST(PrefixMemory, TheLongestKnownBeginningCountsByNode) {
  PrefixMemory memory;
  memory.add(d0, chain_of(130).keys());
  memory.add(d1, chain_of(70).keys());
  const auto known = memory.known(chain_of(1000).keys());
  EXPECT_EQ(known.at(d0.node), 128);
  EXPECT_EQ(known.at(d1.node), 64);
  EXPECT_TRUE(memory.known(chain_of(64, 7).keys()).empty());
}

TEST(PrefixMemory, ANodesNewLifeHasNothing) {
  PrefixMemory memory;
  memory.add(d0, chain_of(130).keys());
  memory.add({d0.node, Epoch(2)}, chain_of(64, 7).keys());
  EXPECT_TRUE(memory.known(chain_of(1000).keys()).empty());
}

TEST(PrefixMemory, ANodeThatIsGoneIsForgotten) {
  PrefixMemory memory;
  memory.add(d0, chain_of(130).keys());
  memory.add(d1, chain_of(130).keys());
  memory.forget(d0.node);
  const auto known = memory.known(chain_of(1000).keys());
  EXPECT_EQ(known.size(), 1U);
  EXPECT_EQ(known.at(d1.node), 128);
}

TEST(PrefixMemory, TheOldestAreForgotten) {
  PrefixMemory memory(2);
  memory.add(d0, chain_of(64, 5).keys());
  memory.add(d0, chain_of(64, 6).keys());
  memory.add(d0, chain_of(64, 7).keys());
  EXPECT_TRUE(memory.known(chain_of(64, 5).keys()).empty());
  EXPECT_EQ(memory.known(chain_of(64, 7).keys()).at(d0.node), 64);
}

}  // namespace
}  // namespace baton::router
