#include "baton/worker/core/convert.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace baton::worker {
namespace {

kvcache::BlockPools pools(int window = 24) {
  kvcache::PoolConfig config;
  config.block_positions = 32;  // two units
  config.groups = {{8, 0}, {8, window}};
  return kvcache::BlockPools(config);
}

TEST(Convert, EverySamplingFieldReachesTheEngine) {
  protocol::Work work;
  work.prompt_ids = {1, 2};
  work.generated_ids = {3};
  work.deadline_ms = 1500;
  protocol::Sampling& in = work.sampling;
  in.temperature = 0.5F;
  in.top_k = 4;
  in.top_p = 0.6F;
  in.min_p = 0.7F;
  in.repetition_penalty = 1.1F;
  in.presence_penalty = 0.2F;
  in.frequency_penalty = 0.3F;
  in.seed = 42;
  in.max_tokens = 9;
  in.min_tokens = 2;
  in.ignore_eos = true;
  in.stop_ids = {5};
  in.logit_bias = {{6, -1.5F}};
  in.logprobs = 3;
  in.logits_digest = true;
  work.prefix_root.emplace();
  NodeLimits limits;
  limits.end_ids = {8};
  const Instant now = Instant{} + std::chrono::seconds(7);
  const engine::SequenceSpec spec = spec_of(work, limits, 32, now);
  EXPECT_THAT(spec.prompt, testing::ElementsAre(1, 2));
  EXPECT_THAT(spec.generated, testing::ElementsAre(3));
  EXPECT_THAT(spec.end_ids, testing::ElementsAre(8));
  EXPECT_EQ(spec.arrival, now);
  EXPECT_EQ(spec.deadline, now + std::chrono::milliseconds(1500));
  EXPECT_TRUE(spec.logits_digest);
  ASSERT_TRUE(spec.prefix.has_value());
  EXPECT_EQ(spec.prefix->block_positions(), 32);
  limits.prefix_cache = false;
  EXPECT_FALSE(spec_of(work, limits, 32, now).prefix.has_value());
  work.prefix_root.reset();
  limits.prefix_cache = true;
  EXPECT_FALSE(spec_of(work, limits, 32, now).prefix.has_value());
  const engine::SamplingParams& out = spec.params;
  EXPECT_EQ(out.temperature, 0.5F);
  EXPECT_EQ(out.top_k, 4);
  EXPECT_EQ(out.top_p, 0.6F);
  EXPECT_EQ(out.min_p, 0.7F);
  EXPECT_EQ(out.repetition_penalty, 1.1F);
  EXPECT_EQ(out.presence_penalty, 0.2F);
  EXPECT_EQ(out.frequency_penalty, 0.3F);
  EXPECT_EQ(out.seed, 42U);
  EXPECT_EQ(out.max_tokens, 9);
  EXPECT_EQ(out.min_tokens, 2);
  EXPECT_TRUE(out.ignore_eos);
  EXPECT_THAT(out.stop_token_ids, testing::ElementsAre(5));
  ASSERT_EQ(out.logit_bias.size(), 1U);
  EXPECT_EQ(out.logit_bias[0].id, 6);
  EXPECT_EQ(out.logit_bias[0].bias, -1.5F);
  EXPECT_EQ(out.logprobs, 3);
}

TEST(Convert, NoAlternativesAreSomethingElseThanNoLogprobs) {
  protocol::Work work;
  work.prompt_ids = {1};
  EXPECT_FALSE(spec_of(work, {}, 1, Instant{}).params.logprobs.has_value());
  work.sampling.logprobs = 0;
  EXPECT_EQ(spec_of(work, {}, 1, Instant{}).params.logprobs, 0);
}

TEST(Convert, AGrantNamesTheUnitsThatItsWindowStillNeeds) {
  kvcache::BlockPools cache = pools();
  kvcache::SequenceBlocks blocks;
  ASSERT_TRUE(cache.extend(blocks, {70, 71, 71}));
  const protocol::Grant grant = grant_of(5, 70, blocks, cache, first_needed(70, cache));
  ASSERT_EQ(grant.groups.size(), 2U);
  EXPECT_EQ(grant.id, 5U);
  EXPECT_EQ(grant.length, 70);
  EXPECT_EQ(grant.groups[0].first_unit, 0U);
  EXPECT_EQ(grant.groups[0].slots.size(), 1U);
  EXPECT_EQ(grant.groups[0].slots[0].count, 3U);
  // Positions 47 to 69 are seen by the next query: units 2 to 4, blocks 1 and 2.
  EXPECT_EQ(grant.groups[1].first_unit, 2U);
  EXPECT_EQ(grant.groups[1].slots[0].count, 2U);
  for (std::uint32_t group = 0; group < 2; ++group) {
    EXPECT_EQ(grant.groups[group].group, group);
    EXPECT_EQ(grant.groups[group].block_units, 2U);
    const kvcache::BlockRef first =
        blocks.group(static_cast<int>(group)).ref(grant.groups[group].first_unit / 2);
    EXPECT_EQ(grant.groups[group].slots[0].first, static_cast<std::uint32_t>(first.block));
    EXPECT_EQ(grant.groups[group].slots[0].generation, first.generation);
  }
  cache.release(blocks);
}

TEST(Convert, AGrantBeginsWithTheBlockThatHoldsItsFirstUnit) {
  kvcache::BlockPools cache = pools();
  kvcache::SequenceBlocks blocks;
  ASSERT_TRUE(cache.extend(blocks, {71, 72, 72}));
  // Positions 48 to 70: units 3 and 4, of which the third is the second in its block.
  const protocol::Grant grant = grant_of(5, 71, blocks, cache, first_needed(71, cache));
  EXPECT_EQ(grant.groups[1].first_unit, 3U);
  EXPECT_EQ(grant.groups[1].slots[0].count, 2U);
  cache.release(blocks);
}

TEST(Convert, AGrantTellsPerGroupHowManyOfItsUnitsAreHeld) {
  kvcache::BlockPools cache = pools();
  kvcache::SequenceBlocks blocks;
  ASSERT_TRUE(cache.extend(blocks, {70, 71, 71}));
  EXPECT_EQ(first_needed(70, cache), (std::vector<std::int64_t>{0, 32}));
  const protocol::Grant grant = grant_of(5, 70, blocks, cache, {32, 64});
  EXPECT_EQ(grant.groups[0].held_units, 2U);
  EXPECT_EQ(grant.groups[1].held_units, 2U);
  EXPECT_EQ(grant_of(5, 70, blocks, cache, {0, 32}).groups[1].held_units, 0U);
  cache.release(blocks);
}

TEST(Convert, LocalBlocksBeginAtTheFirstThatIsHeld) {
  kvcache::BlockPools cache = pools();
  kvcache::SequenceBlocks blocks;
  ASSERT_TRUE(cache.extend(blocks, {70, 71, 71}));
  const auto local = local_blocks(blocks, cache);
  EXPECT_EQ(local[0].first_block, 0U);
  EXPECT_EQ(local[0].block_units, 2U);
  EXPECT_EQ(local[1].first_block, 1U);
  EXPECT_EQ(local[1].blocks.size(), 2U);
  cache.release(blocks);
}

TEST(Pins, OutliveTheSequenceAndAreTakenOnce) {
  kvcache::BlockPools cache = pools();
  kvcache::SequenceBlocks blocks;
  ASSERT_TRUE(cache.extend(blocks, {0, 33, 33}));
  Pins pins;
  pins.add(blocks, 65, cache, kvcache::HolderKind::send_pin);
  pins.add(blocks, 65, cache, kvcache::HolderKind::send_pin);
  ASSERT_TRUE(cache.extend(blocks, {33, 65, 65}));
  pins.add(blocks, 65, cache, kvcache::HolderKind::send_pin);
  EXPECT_EQ(cache.counts(0).references[1], 3);
  cache.release(blocks);
  EXPECT_EQ(cache.available_blocks(0), 5);
  pins.release(cache, kvcache::HolderKind::send_pin);
  EXPECT_EQ(cache.available_blocks(0), 8);
  EXPECT_EQ(cache.available_blocks(1), 8);
  pins.release(cache, kvcache::HolderKind::send_pin);  // nothing is left to release
}

TEST(Pins, OfAWindowBeginAtTheFirstBlockThatAHandoffNeeds) {
  kvcache::BlockPools cache = pools();
  kvcache::SequenceBlocks blocks;
  ASSERT_TRUE(cache.extend(blocks, {0, 128, 128}));
  Pins pins;
  pins.add(blocks, 120, cache, kvcache::HolderKind::send_pin);
  EXPECT_EQ(cache.counts(0).references[1], 4);
  EXPECT_EQ(cache.counts(1).references[1], 1);  // 97 to 119
  cache.release(blocks);
  pins.release(cache, kvcache::HolderKind::send_pin);
}

}  // namespace
}  // namespace baton::worker
