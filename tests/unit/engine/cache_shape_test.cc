#include "baton/engine/cache_shape.h"

#include <gtest/gtest.h>

namespace baton::engine {
namespace {

models::ModelConfig two_rules() {
  models::ModelConfig model;
  model.kv_heads = 2;
  model.head_dim = 8;
  model.groups = {{.window = 0, .layers = {0, 2, 3}}, {.window = 33, .layers = {1}}};
  return model;
}

TEST(CacheShape, WindowGroupsHoldTheWindowAndAChunkOfEachSequence) {
  CacheShape shape{.positions = 6'400, .block_units = 1, .sequences = 2, .chunk_rows = 16};
  const auto arena = arena_config(two_rules(), shape);
  ASSERT_EQ(arena.groups.size(), 2u);
  EXPECT_EQ(arena.groups[0].layers, 3);
  EXPECT_EQ(arena.groups[0].blocks, 400);
  EXPECT_EQ(arena.groups[1].blocks, 2 * 4);
  kvcache::BlockPools pools(pool_config(two_rules(), arena, false));
  EXPECT_TRUE(pools.could_fit(6'400, 16));
  EXPECT_FALSE(pools.could_fit(6'401, 16));
}

TEST(CacheShape, AWindowGroupIsNeverLargerThanAFullOne) {
  CacheShape shape{.positions = 100, .block_units = 1, .sequences = 50, .chunk_rows = 16};
  const auto arena = arena_config(two_rules(), shape);
  EXPECT_EQ(arena.groups[0].blocks, 7);
  EXPECT_EQ(arena.groups[1].blocks, 7);
}

TEST(CacheShape, TheBytesAreThoseOfTheArena) {
  CacheShape shape{.positions = 100, .block_units = 2, .chunk_rows = 16};
  const auto config = arena_config(two_rules(), shape);
  auto arena = kvcache::Arena::create(config).value();
  EXPECT_EQ(cache_bytes(config), arena.memory(0).size() + arena.memory(1).size());
}

}  // namespace
}  // namespace baton::engine
