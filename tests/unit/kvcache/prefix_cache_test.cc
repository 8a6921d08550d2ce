// What the pools keep under a prefix's key, what of it a sequence gets, and what goes first.
#include <numeric>

#include <gtest/gtest.h>

#include "baton/kvcache/core/block_pools.h"

namespace baton::kvcache {
namespace {

constexpr int size = 16;  // positions of a block

PoolConfig full_group(std::int32_t blocks) {
  return {.block_positions = size, .groups = {{.blocks = blocks}}};
}

PoolConfig full_and_window(std::int32_t blocks, int window) {
  return {.block_positions = size,
          .groups = {{.blocks = blocks}, {.blocks = blocks, .window = window}}};
}

std::vector<TokenId> prompt(std::size_t count, TokenId first = 0) {
  std::vector<TokenId> out(count);
  std::iota(out.begin(), out.end(), first);
  return out;
}

class PrefixCache : public testing::Test {
 protected:
  static std::vector<prefix::Key> keys_of(const std::vector<TokenId>& ids) {
    prefix::Chain chain(prefix::Key(), size);
    chain.extend(ids);
    return {chain.keys().begin(), chain.keys().end()};
  }

  /// A sequence that computes all of `ids`, in chunks, and is still held.
  static SequenceBlocks compute(BlockPools& pools, const std::vector<TokenId>& ids,
                                std::int64_t chunk = 1000) {
    const auto keys = keys_of(ids);
    const auto length = static_cast<std::int64_t>(ids.size());
    SequenceBlocks blocks;
    for (std::int64_t at = 0; at < length;) {
      const std::int64_t end = std::min(at + chunk, length);
      EXPECT_TRUE(pools.extend(blocks, {.next = at, .end = end, .reserve_end = length}));
      pools.seal(blocks, keys, at, end, {});
      pools.drop_invisible(blocks, end);
      at = end;
    }
    return blocks;
  }
  static void compute_and_leave(BlockPools& pools, const std::vector<TokenId>& ids,
                                std::int64_t chunk = 1000) {
    SequenceBlocks blocks = compute(pools, ids, chunk);
    pools.release(blocks);
  }

  static std::int64_t hit(const BlockPools& pools, const std::vector<TokenId>& ids) {
    return pools.cached_prefix(keys_of(ids), static_cast<std::int64_t>(ids.size()) - 1);
  }
  /// Takes the hit as a prefilling sequence does.
  static SequenceBlocks take(BlockPools& pools, const std::vector<TokenId>& ids,
                             std::int64_t length) {
    std::vector<std::int64_t> first;
    for (int g = 0; g < pools.groups(); ++g) first.push_back(pools.first_visible(g, length));
    SequenceBlocks blocks;
    const auto held = pools.take_indexed(blocks, keys_of(ids), first, length);
    for (const std::int64_t end : held) EXPECT_EQ(end, length);
    return blocks;
  }
};

TEST_F(PrefixCache, WhatWasComputedIsKeptWholeBlockByWholeBlock) {
  BlockPools pools(full_group(8));
  compute_and_leave(pools, prompt(40));
  EXPECT_EQ(pools.counts(0), (PoolCounts{.total = 8, .free = 6, .cached = 2}));
  EXPECT_EQ(pools.available_blocks(0), 8);
  EXPECT_EQ(pools.usage(0), 0);
  EXPECT_EQ(hit(pools, prompt(100)), 32);
  EXPECT_EQ(hit(pools, prompt(33)), 32);
}

TEST_F(PrefixCache, AHitMayEndAtAnyBlock) {
  BlockPools pools(full_group(32));
  compute_and_leave(pools, prompt(160));
  for (std::size_t same = 1; same < 170; ++same) {
    std::vector<TokenId> other = prompt(200);
    other[same] += 1000;
    EXPECT_EQ(hit(pools, other),
              std::min<std::int64_t>(160, static_cast<std::int64_t>(same) / 16 * 16));
  }
}

TEST_F(PrefixCache, OfAWholePromptThatHitsTheLastBlockIsComputedAgain) {
  BlockPools pools(full_group(8));
  compute_and_leave(pools, prompt(64));
  EXPECT_EQ(hit(pools, prompt(64)), 48);
  SequenceBlocks again = take(pools, prompt(64), 48);
  ASSERT_TRUE(pools.extend(again, {.next = 48, .end = 64}));
  const std::int32_t last = again.group(0).blocks()[3];
  pools.seal(again, keys_of(prompt(64)), 48, 64, {});
  pools.release(again);
  EXPECT_EQ(pools.counts(0).cached, 4) << "the copy of a known block is not kept";
  SequenceBlocks longer = take(pools, prompt(65), 64);
  EXPECT_NE(longer.group(0).blocks()[3], last);
  pools.release(longer);
}

TEST_F(PrefixCache, ASharedBlockKeepsItsGenerationUntilItIsEvicted) {
  BlockPools pools(full_group(4));
  SequenceBlocks first = compute(pools, prompt(33));
  const BlockRef ref = first.group(0).ref(0);
  pools.release(first);
  EXPECT_EQ(pools.check(0, ref).error().reason(), Reason::stale_generation) << "held by nobody";
  SequenceBlocks second = take(pools, prompt(33), 32);
  EXPECT_EQ(second.group(0).ref(0), ref);
  EXPECT_TRUE(pools.check(0, ref).has_value());
  pools.release(second);
  SequenceBlocks stranger = compute(pools, prompt(64, 500));
  EXPECT_EQ(hit(pools, prompt(33)), 0);
  EXPECT_EQ(pools.check(0, ref).error().reason(), Reason::stale_generation);
  pools.release(stranger);
}

TEST_F(PrefixCache, FreeBlocksGoBeforeCachedOnesAndThePrefixAfterWhatContinuesIt) {
  BlockPools pools(full_group(8));
  compute_and_leave(pools, prompt(64));
  SequenceBlocks a = compute(pools, prompt(64, 500));
  EXPECT_EQ(pools.counts(0).cached, 4) << "four were free";
  SequenceBlocks b = compute(pools, prompt(32, 900));
  EXPECT_EQ(hit(pools, prompt(65)), 32) << "the last two blocks went";
  pools.release(a);
  pools.release(b);
}

TEST_F(PrefixCache, TheLongestUnusedPrefixIsEvictedFirst) {
  BlockPools pools(full_group(6));
  compute_and_leave(pools, prompt(32, 100));
  compute_and_leave(pools, prompt(32, 200));
  compute_and_leave(pools, prompt(32, 300));
  SequenceBlocks again = take(pools, prompt(33, 100), 32);
  pools.release(again);
  SequenceBlocks other = compute(pools, prompt(16, 900));
  EXPECT_EQ(hit(pools, prompt(33, 200)), 16);
  EXPECT_EQ(hit(pools, prompt(33, 100)), 32);
  EXPECT_EQ(hit(pools, prompt(33, 300)), 32);
  pools.release(other);
}

TEST_F(PrefixCache, ComputingAKnownPrefixAgainCountsAsItsUse) {
  BlockPools pools(full_group(6));
  compute_and_leave(pools, prompt(32, 100));
  compute_and_leave(pools, prompt(32, 200));
  compute_and_leave(pools, prompt(32, 100));  // without taking the hit
  SequenceBlocks other = compute(pools, prompt(48, 900));
  EXPECT_EQ(hit(pools, prompt(33, 100)), 32);
  EXPECT_EQ(hit(pools, prompt(33, 200)), 16);
  pools.release(other);
}

TEST_F(PrefixCache, HNG06WhatASendOrASequenceStillHoldsIsNotEvicted) {
  BlockPools pools(full_group(4));
  SequenceBlocks first = compute(pools, prompt(32));
  const BlockRef pinned = first.group(0).ref(0);
  pools.hold(0, pinned, HolderKind::send_pin);
  pools.release(first);
  EXPECT_EQ(pools.available_blocks(0), 3);
  SequenceBlocks other;
  EXPECT_FALSE(pools.extend(other, {.next = 0, .end = 64}));
  ASSERT_TRUE(pools.extend(other, {.next = 0, .end = 48}));
  EXPECT_TRUE(pools.check(0, pinned).has_value());
  EXPECT_EQ(hit(pools, prompt(33)), 16);
  pools.unhold(0, pinned, HolderKind::send_pin);
  pools.release(other);
  EXPECT_EQ(pools.counts(0), (PoolCounts{.total = 4, .free = 3, .cached = 1}));
}

TEST_F(PrefixCache, AWindowGroupNeedsTheBlocksThatTheNextQuerySees) {
  BlockPools pools(full_and_window(32, 33));
  compute_and_leave(pools, prompt(160), 32);
  EXPECT_EQ(hit(pools, prompt(161)), 160);
  SequenceBlocks taken = take(pools, prompt(161), 160);
  EXPECT_EQ(taken.group(0).first_held(), 0u);
  EXPECT_EQ(taken.group(1).first_held(), 8u);  // a query at 160 sees 128 to 160
  ASSERT_TRUE(pools.extend(taken, {.next = 160, .end = 161}));
  EXPECT_EQ(taken.group(1).size(), 11u);
  pools.release(taken);
}

TEST_F(PrefixCache, AWindowBlockLostShortensTheHitToWhereTheWindowIsWhole) {
  PoolConfig config = full_and_window(32, 33);
  config.groups[1].blocks = 7;
  BlockPools pools(config);
  compute_and_leave(pools, prompt(112), 16);
  EXPECT_EQ(hit(pools, prompt(200)), 112);
  // Of the window group, the two blocks that were left first are evicted: 0 and 1.
  SequenceBlocks other = compute(pools, prompt(32, 900));
  EXPECT_EQ(hit(pools, prompt(200)), 112);
  EXPECT_EQ(hit(pools, prompt(49)), 0) << "a query at 48 sees block 1";
  EXPECT_EQ(hit(pools, prompt(65)), 64);
  pools.release(other);
}

TEST_F(PrefixCache, WhatAPrefixCostsIsCountedWithItsUnheldBlocks) {
  BlockPools pools(full_group(8));
  compute_and_leave(pools, prompt(48));
  const auto keys = keys_of(prompt(64));
  const Coverage span{.next = 48, .end = 64};
  EXPECT_EQ(pools.need_after_prefix(keys, 48, span), (std::vector<std::int64_t>{4}));
  SequenceBlocks holder = take(pools, prompt(33), 32);
  EXPECT_EQ(pools.need_after_prefix(keys, 48, span), (std::vector<std::int64_t>{2}));
  pools.release(holder);
}

TEST_F(PrefixCache, AHandedOverSequenceTakesTheLeadingBlocksThatAreHereGroupByGroup) {
  BlockPools pools(full_and_window(32, 33));
  compute_and_leave(pools, prompt(160), 32);
  SequenceBlocks blocks;
  std::vector<TokenId> ids = prompt(200);
  const auto held =
      pools.take_indexed(blocks, keys_of(ids), std::vector<std::int64_t>{0, 160}, 200);
  EXPECT_EQ(held, (std::vector<std::int64_t>{160, 160})) << "nothing from 160 on";
  EXPECT_EQ(blocks.group(1).size(), 0u);
  ASSERT_TRUE(pools.extend(blocks, {.next = 199, .end = 201}));
  EXPECT_EQ(blocks.group(0).size(), 13u);
  EXPECT_EQ(blocks.group(1).first_held(), 10u);
  pools.release(blocks);

  ids = prompt(160);
  const auto window =
      pools.take_indexed(blocks, keys_of(ids), std::vector<std::int64_t>{0, 128}, 160);
  EXPECT_EQ(window, (std::vector<std::int64_t>{160, 160}));
  EXPECT_EQ(blocks.group(1).first_held(), 8u);
  pools.release(blocks);
}

TEST_F(PrefixCache, ABlockThatWasNotWrittenFromItsStartIsNotIndexed) {
  BlockPools pools(full_and_window(16, 40));
  const std::vector<TokenId> ids = prompt(96);
  SequenceBlocks blocks;
  ASSERT_TRUE(pools.extend(blocks, {.next = 95, .end = 97}));
  // The window group came from position 60 on: its block of 48 to 63 is not whole.
  pools.seal(blocks, keys_of(ids), 0, 96, std::vector<std::int64_t>{0, 60});
  pools.release(blocks);
  EXPECT_EQ(pools.counts(0).cached, 6);
  EXPECT_EQ(pools.counts(1).cached, 2);
}

TEST_F(PrefixCache, WhatIsForgottenIsFreedWithItsLastHolder) {
  BlockPools pools(full_group(4));
  SequenceBlocks first = compute(pools, prompt(32));
  EXPECT_TRUE(pools.is_indexed(0, first.group(0).blocks()[0]));
  pools.forget(first);
  EXPECT_EQ(hit(pools, prompt(33)), 0);
  EXPECT_FALSE(pools.is_indexed(0, first.group(0).blocks()[0]));
  pools.release(first);
  EXPECT_EQ(pools.counts(0), (PoolCounts{.total = 4, .free = 4}));
}

TEST_F(PrefixCache, EvictedBlocksAreListedForPoisoning) {
  PoolConfig config = full_group(2);
  config.record_freed = true;
  BlockPools pools(config);
  compute_and_leave(pools, prompt(32));
  EXPECT_TRUE(pools.take_freed().empty()) << "cached, not free";
  SequenceBlocks other = compute(pools, prompt(16, 900));
  EXPECT_EQ(pools.take_freed().size(), 1u);
  pools.release(other);
}

}  // namespace
}  // namespace baton::kvcache
