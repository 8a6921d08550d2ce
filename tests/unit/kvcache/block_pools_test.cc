#include "baton/kvcache/core/block_pools.h"

#include <map>
#include <random>
#include <set>

#include <gtest/gtest.h>

namespace baton::kvcache {
namespace {

PoolConfig one_group(std::int32_t blocks, int window = 0) {
  return {.block_positions = 16, .groups = {{.blocks = blocks, .window = window}}};
}

bool at_baseline(const BlockPools& pools) {
  for (int g = 0; g < pools.groups(); ++g) {
    const std::int32_t total = pools.config().groups[static_cast<std::size_t>(g)].blocks;
    if (pools.counts(g) != PoolCounts{.total = total, .free = total}) return false;
  }
  return true;
}

TEST(BlockPools, AnAllocationThatOneGroupCannotServeTakesNothingFromTheOthers) {
  BlockPools pools({.block_positions = 16, .groups = {{.blocks = 8}, {.blocks = 2}}});
  SequenceBlocks blocks;
  EXPECT_FALSE(pools.extend(blocks, {0, 3 * 16}));
  EXPECT_TRUE(blocks.empty());
  EXPECT_TRUE(at_baseline(pools));
  EXPECT_TRUE(pools.extend(blocks, {0, 2 * 16}));
  EXPECT_FALSE(pools.extend(blocks, {32, 33}));
  EXPECT_EQ(blocks.group(0).size(), 2u);
  EXPECT_EQ(pools.available_blocks(0), 6);
}

TEST(BlockPools, ExtendingWithinTheLastBlockTakesNothing) {
  BlockPools pools(one_group(4));
  SequenceBlocks blocks;
  ASSERT_TRUE(pools.extend(blocks, {0, 17}));
  EXPECT_EQ(blocks.group(0).size(), 2u);
  ASSERT_TRUE(pools.extend(blocks, {17, 32}));
  EXPECT_EQ(blocks.group(0).size(), 2u);
  ASSERT_TRUE(pools.extend(blocks, {32, 33}));
  EXPECT_EQ(blocks.group(0).size(), 3u);
}

TEST(BlockPools, AReusedBlockHasAGreaterGenerationAndTheOldNameIsStale) {
  BlockPools pools(one_group(1));
  SequenceBlocks first;
  ASSERT_TRUE(pools.extend(first, {0, 1}));
  const BlockRef old = first.group(0).ref(0);
  EXPECT_TRUE(pools.check(0, old).has_value());
  pools.release(first);
  EXPECT_EQ(pools.check(0, old).error().reason(), Reason::stale_generation);
  SequenceBlocks second;
  ASSERT_TRUE(pools.extend(second, {0, 1}));
  EXPECT_EQ(second.group(0).ref(0).block, old.block);
  EXPECT_GT(second.group(0).ref(0).generation, old.generation);
  EXPECT_EQ(pools.check(0, old).error().reason(), Reason::stale_generation);
}

TEST(BlockPools, R3NamesOutsideThePoolAreTypedErrors) {
  BlockPools pools(one_group(4));
  for (const auto& [group, block] : std::vector<std::pair<int, std::int32_t>>{
           {-1, 0}, {1, 0}, {0, -1}, {0, 4}, {0, std::numeric_limits<std::int32_t>::max()}}) {
    EXPECT_EQ(pools.check(group, {block, 0}).error().reason(), Reason::out_of_range);
  }
}

TEST(BlockPools, WindowGroupsKeepExactlyTheBlocksThatTheNextQuerySees) {
  BlockPools pools(
      {.block_positions = 16, .groups = {{.blocks = 32}, {.blocks = 8, .window = 33}}});
  SequenceBlocks blocks;
  ASSERT_TRUE(pools.extend(blocks, {0, 48}));
  ASSERT_TRUE(pools.extend(blocks, {48, 49}));  // a query at 48 sees 16..48
  EXPECT_EQ(blocks.group(1).blocks()[0], -1);
  EXPECT_NE(blocks.group(1).blocks()[1], -1);
  EXPECT_EQ(blocks.group(1).first_held(), 1u);
  EXPECT_EQ(blocks.group(0).first_held(), 0u);
  pools.drop_invisible(blocks, 63);  // sees 31..63
  EXPECT_NE(blocks.group(1).blocks()[1], -1);
  pools.drop_invisible(blocks, 64);  // sees 32..64
  EXPECT_EQ(blocks.group(1).blocks()[1], -1);
  pools.release(blocks);
  EXPECT_TRUE(at_baseline(pools));
}

TEST(BlockPools, AGrantFarIntoASequenceTakesOnlyTheWindowInWindowGroups) {
  BlockPools pools(
      {.block_positions = 16, .groups = {{.blocks = 64}, {.blocks = 4, .window = 20}}});
  SequenceBlocks blocks;
  EXPECT_EQ(pools.need(blocks, {500, 510}), (std::vector<std::int64_t>{32, 2}));
  ASSERT_TRUE(pools.extend(blocks, {500, 510}));
  EXPECT_EQ(blocks.group(1).size(), 32u);
  EXPECT_EQ(blocks.group(1).first_held(), 30u);
  EXPECT_EQ(blocks.group(1).blocks()[29], -1);
  EXPECT_EQ(pools.counts(1).references[0], 2);
  EXPECT_EQ(pools.need(blocks, {510, 513}), (std::vector<std::int64_t>{1, 1}));
  pools.release(blocks);
  EXPECT_TRUE(at_baseline(pools));
}

TEST(BlockPools, ABlockLeftByEveryHolderButAnOpenReceiveIsInQuarantineAndNotReused) {
  BlockPools pools(one_group(2));
  SequenceBlocks blocks;
  ASSERT_TRUE(pools.extend(blocks, {0, 32}));
  const BlockRef receiving = blocks.group(0).ref(0);
  const BlockRef sending = blocks.group(0).ref(1);
  pools.hold(0, receiving, HolderKind::open_receive);
  pools.hold(0, sending, HolderKind::send_pin);
  EXPECT_EQ(pools.counts(0).quarantined, 0);
  EXPECT_EQ(pools.freed_by_release(blocks), (std::vector<std::int64_t>{0}));
  pools.release(blocks);
  EXPECT_EQ(pools.counts(0).quarantined, 1);
  EXPECT_EQ(pools.available_blocks(0), 0);
  SequenceBlocks other;
  EXPECT_FALSE(pools.extend(other, {0, 1}));
  pools.unhold(0, receiving, HolderKind::open_receive);
  EXPECT_EQ(pools.counts(0).quarantined, 0);
  pools.unhold(0, sending, HolderKind::send_pin);
  EXPECT_TRUE(at_baseline(pools));
}

TEST(BlockPools, AReplacedBlockStaysInQuarantineWhileItsReceiveIsOpen) {
  BlockPools pools(one_group(3));
  SequenceBlocks blocks;
  ASSERT_TRUE(pools.extend(blocks, {0, 32}));
  const BlockRef old = blocks.group(0).ref(1);
  pools.hold(0, old, HolderKind::open_receive);
  ASSERT_TRUE(pools.replace(blocks, 0, 1));
  EXPECT_NE(blocks.group(0).ref(1).block, old.block);
  EXPECT_GT(blocks.group(0).ref(1).generation, old.generation);
  EXPECT_EQ(pools.counts(0).quarantined, 1);
  EXPECT_FALSE(pools.replace(blocks, 0, 1));
  pools.unhold(0, old, HolderKind::open_receive);
  pools.release(blocks);
  EXPECT_TRUE(at_baseline(pools));
}

TEST(BlockPools, FreedBlocksAreListedOnceForPoisoning) {
  PoolConfig config = one_group(4);
  config.record_freed = true;
  BlockPools pools(config);
  SequenceBlocks blocks;
  ASSERT_TRUE(pools.extend(blocks, {0, 20}));
  EXPECT_TRUE(pools.take_freed().empty());
  pools.release(blocks);
  EXPECT_EQ(pools.take_freed(), (std::vector<FreedBlock>{{0, 1}, {0, 0}}));
  EXPECT_TRUE(pools.take_freed().empty());
}

TEST(BlockPools, HNG14AReservationTakesTheWholePromptInFullGroupsAndAChunkInWindowGroups) {
  BlockPools pools({.block_positions = 16, .groups = {{.blocks = 8}, {.blocks = 8, .window = 20}}});
  SequenceBlocks blocks;
  ASSERT_TRUE(pools.extend(blocks, {.next = 0, .end = 32, .reserve_end = 100}));
  EXPECT_EQ(blocks.group(0).size(), 7u);
  EXPECT_EQ(blocks.group(1).size(), 2u);
  ASSERT_TRUE(pools.extend(blocks, {.next = 32, .end = 64, .reserve_end = 100}));
  EXPECT_EQ(blocks.group(0).size(), 7u);
  EXPECT_EQ(blocks.group(1).size(), 4u);
}

TEST(BlockPools, CouldFitCountsAWindowGroupByItsWindowAndChunk) {
  BlockPools pools(
      {.block_positions = 16, .groups = {{.blocks = 10}, {.blocks = 4, .window = 33}}});
  EXPECT_TRUE(pools.could_fit(160, 16));
  EXPECT_FALSE(pools.could_fit(161, 16));
  EXPECT_TRUE(pools.could_fit(160, 17));
  EXPECT_FALSE(pools.could_fit(160, 19));
}

TEST(BlockPools, RunsEndWhereTheBlocksOrTheGenerationsDo) {
  BlockPools pools(one_group(16));
  SequenceBlocks a;
  SequenceBlocks b;
  ASSERT_TRUE(pools.extend(a, {0, 3 * 16}));
  ASSERT_TRUE(pools.extend(b, {0, 16}));
  ASSERT_TRUE(pools.extend(a, {48, 5 * 16}));
  const auto runs = runs_of(a.group(0));
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs[0].count, 3);
  EXPECT_EQ(runs[1].count, 2);
  EXPECT_EQ(runs[1].first, 4);
  EXPECT_EQ(blocks_in(runs), 5);
  SequenceBlocks c;
  ASSERT_TRUE(pools.extend(c, {0, 16}));
  ASSERT_TRUE(pools.extend(c, {16, 32}));
  EXPECT_EQ(c.group(0).blocks()[1], c.group(0).blocks()[0] + 1);
  EXPECT_EQ(runs_of(c.group(0)).size(), 2u) << "neighbours of two generations";
  EXPECT_EQ(runs_of(a.group(0), 1, 3).size(), 2u);
}

TEST(BlockPools, MalformedRunsOfAPeerAreNotCounted) {
  EXPECT_EQ(blocks_in(std::vector<BlockRun>{{0, 0, 1}}), -1);
  EXPECT_EQ(blocks_in(std::vector<BlockRun>{{-1, 2, 1}}), -1);
  EXPECT_EQ(blocks_in(std::vector<BlockRun>{{std::numeric_limits<std::int32_t>::max(), 1, 1}}), -1);
}

TEST(BlockPools, PRF03AfterTenThousandOperationsSixtyFourBlocksComeInLongRuns) {
  std::mt19937_64 random(7);
  BlockPools pools(one_group(4096));
  std::vector<SequenceBlocks> live;
  for (int i = 0; i < 10'000; ++i) {
    const bool full = pools.usage(0) > 0.8;
    if (!full && (live.empty() || random() % 2 == 0)) {
      SequenceBlocks blocks;
      const auto positions = static_cast<std::int64_t>(1 + random() % (64 * 16));
      if (pools.extend(blocks, {0, positions})) live.push_back(std::move(blocks));
    } else {
      std::swap(live[random() % live.size()], live.back());
      pools.release(live.back());
      live.pop_back();
    }
  }
  SequenceBlocks sixty_four;
  ASSERT_TRUE(pools.extend(sixty_four, {0, 64 * 16}));
  EXPECT_GE(64.0 / static_cast<double>(runs_of(sixty_four.group(0)).size()), 4.0);
}

TEST(BlockPools, COR15UnderRandomUseNoBlockHasTwoOwnersAndNothingIsLost) {
  std::mt19937_64 random(11);
  BlockPools pools(
      {.block_positions = 16, .groups = {{.blocks = 60}, {.blocks = 40, .window = 40}}});
  std::vector<std::pair<SequenceBlocks, std::int64_t>> live;
  for (int i = 0; i < 20'000; ++i) {
    const auto choice = random() % 4;
    if (choice == 0 || live.empty()) {
      live.emplace_back();
    } else if (choice < 3) {
      auto& [blocks, cached] = live[random() % live.size()];
      const std::int64_t end = cached + 1 + static_cast<std::int64_t>(random() % 40);
      if (pools.extend(blocks, {cached, end})) cached = end;
    } else {
      std::swap(live[random() % live.size()], live.back());
      pools.release(live.back().first);
      live.pop_back();
    }
    std::set<std::pair<int, std::int32_t>> owned;
    for (const auto& [blocks, cached] : live) {
      for (int g = 0; g < static_cast<int>(blocks.groups()); ++g) {
        const BlockTable& table = blocks.group(g);
        for (std::size_t k = table.first_held(); k < table.size(); ++k) {
          ASSERT_TRUE(owned.emplace(g, table.blocks()[k]).second) << "two owners";
        }
      }
    }
    for (int g = 0; g < 2; ++g) {
      const PoolCounts counts = pools.counts(g);
      ASSERT_EQ(counts.total - counts.free, counts.references[0]);
    }
  }
  for (auto& [blocks, cached] : live) pools.release(blocks);
  EXPECT_TRUE(at_baseline(pools));
}

}  // namespace
}  // namespace baton::kvcache
