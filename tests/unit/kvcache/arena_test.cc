#include "baton/kvcache/arena.h"

#include <limits>
#include <set>

#include <gtest/gtest.h>

namespace baton::kvcache {
namespace {

ArenaConfig two_groups() {
  return {.unit = {.dtype = tensor::CacheDtype::bf16, .kv_heads = 3, .head_dim = 8},
          .block_units = 2,
          .groups = {{.layers = 2, .blocks = 5}, {.layers = 1, .blocks = 7}}};
}

TEST(Arena, EveryBlockHasItsOwnBytesAndTheWholeMemoryIsUsed) {
  Arena arena = Arena::create(two_groups()).value();
  EXPECT_EQ(arena.block_bytes(), 2u * 3 * 8 * 16 * 2);
  for (int group = 0; group < 2; ++group) {
    const ArenaGroup& shape = arena.config().groups[static_cast<std::size_t>(group)];
    std::set<std::ptrdiff_t> offsets;
    for (int layer = 0; layer < shape.layers; ++layer) {
      for (const auto part : {tensor::KvPart::k, tensor::KvPart::v}) {
        for (std::int32_t block = 0; block < shape.blocks; ++block) {
          offsets.insert(arena.block(group, layer, part, block) - arena.memory(group).data());
        }
      }
    }
    const auto count = static_cast<std::size_t>(shape.layers * 2 * shape.blocks);
    ASSERT_EQ(offsets.size(), count);
    EXPECT_EQ(*offsets.begin(), 0);
    EXPECT_EQ(static_cast<std::size_t>(*offsets.rbegin()), (count - 1) * arena.block_bytes());
    EXPECT_EQ(arena.memory(group).size(), count * arena.block_bytes());
  }
}

TEST(Arena, NeighbouringBlocksOfALayerAreNeighboursInMemory) {
  Arena arena = Arena::create(two_groups()).value();
  EXPECT_EQ(arena.block(0, 1, tensor::KvPart::v, 3) - arena.block(0, 1, tensor::KvPart::v, 2),
            static_cast<std::ptrdiff_t>(arena.block_bytes()));
}

TEST(Arena, ASizeThatOverflowsIsRefusedNotWrapped) {
  ArenaConfig config = two_groups();
  config.unit.head_dim = std::numeric_limits<int>::max() - 1;
  config.unit.kv_heads = std::numeric_limits<int>::max() / 64;
  config.groups[0] = {.layers = 1 << 20, .blocks = std::numeric_limits<std::int32_t>::max()};
  const auto arena = Arena::create(config);
  ASSERT_TRUE(arena.has_error());
  EXPECT_EQ(arena.error().reason(), Reason::bad_config);
}

TEST(Arena, AnEmptyGroupIsRefused) {
  ArenaConfig config = two_groups();
  config.groups[1].blocks = 0;
  EXPECT_EQ(Arena::create(config).error().reason(), Reason::bad_config);
}

}  // namespace
}  // namespace baton::kvcache
