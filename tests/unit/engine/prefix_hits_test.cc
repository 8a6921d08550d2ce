// What a sequence takes from the prefix cache and leaves there, and how a step is planned with it.
#include <gtest/gtest.h>

#include "core_fixture.h"

namespace baton::engine {
namespace {

constexpr int size = 16;

class PrefixHits : public testing::Test {
 protected:
  static SequenceSpec with_prefix(SequenceSpec spec) {
    spec.prefix.emplace(prefix::Key(), size);
    return spec;
  }
  static Sequence prefilling(std::int64_t length, std::vector<TokenId> generated = {}) {
    return Sequence::for_prefill(with_prefix(spec_of(length, std::move(generated))), test_limits)
        .value();
  }
  /// Somebody computed such a prompt before.
  void leave_behind(std::int64_t length) {
    Sequence sequence = prefilling(length);
    ASSERT_TRUE(sequence.reserve(pools_, length));
    sequence.advance(length, table_.next_step(), pools_);
    sequence.release(pools_);
  }
  StepPlan plan() { return plan_mixed(table_, pools_, rates_, limits_).step; }
  Reason refusal(const StepPlan& step) {
    return prepare_step(step, table_, pools_).error().reason();
  }

  kvcache::BlockPools pools_{{.block_positions = size, .groups = {{.blocks = 12}}}};
  SequenceTable table_;
  RateModel rates_;
  PlanLimits limits_;
};

TEST_F(PrefixHits, APromptStartsBehindWhatIsCachedOfIt) {
  leave_behind(60);
  const SequenceId id = table_.add(prefilling(70));
  const StepPlan step = plan();
  EXPECT_EQ(step.hits, (std::vector<PrefixHit>{{id, 48}}));
  EXPECT_EQ(step.prefill, (std::vector<PrefillRows>{{id, 48, 22}}));
  EXPECT_EQ(step.shape.rows, 22);
  ASSERT_TRUE(prepare_step(step, table_, pools_).has_value());
  EXPECT_EQ(table_.find(id)->cached(), 48);
  EXPECT_EQ(table_.find(id)->prefix_hit(), 48);
  EXPECT_EQ(pools_.available_blocks(0), 12 - 5);
  table_.find(id)->advance(22, table_.next_step(), pools_);
  table_.find(id)->append(99);
  EXPECT_TRUE(plan().hits.empty());
}

TEST_F(PrefixHits, WithoutAChainNothingIsTakenOrLeft) {
  leave_behind(64);
  const SequenceId id = add_prompt(table_, 70);
  EXPECT_TRUE(plan().hits.empty());
  table_.remove(id, pools_);
  const SequenceId decoding = add_decoding(table_, pools_, 70);
  table_.remove(decoding, pools_);
  EXPECT_EQ(pools_.counts(0).cached, 4);
}

TEST_F(PrefixHits, OnlyWholeBlocksOfEndedStepsAreLeft) {
  Sequence sequence = prefilling(40);
  ASSERT_TRUE(sequence.reserve(pools_, 40));
  EXPECT_EQ(prefilling(40).cached_prefix(pools_), 0) << "reserved, not computed";
  sequence.advance(15, 1, pools_);
  EXPECT_EQ(prefilling(40).cached_prefix(pools_), 0);
  sequence.advance(1, 2, pools_);
  EXPECT_EQ(prefilling(40).cached_prefix(pools_), 16);
  sequence.advance(24, 3, pools_);
  EXPECT_EQ(prefilling(60).cached_prefix(pools_), 32) << "the third block has 8 positions";
  sequence.release(pools_);
}

TEST_F(PrefixHits, GeneratedIdsAreLeftForTheNextTurn) {
  Sequence sequence = prefilling(30);
  ASSERT_TRUE(sequence.reserve(pools_, 30));
  sequence.advance(30, 1, pools_);
  std::vector<TokenId> generated;
  for (TokenId id = 60; id < 66; ++id) {
    generated.push_back(id);
    sequence.append(id);
    ASSERT_TRUE(sequence.reserve(pools_, sequence.cached() + 1));
    sequence.advance(1, 2, pools_);
  }
  sequence.release(pools_);
  EXPECT_EQ(prefilling(30, generated).cached_prefix(pools_), 32);
  generated[1] = 7;
  EXPECT_EQ(prefilling(30, generated).cached_prefix(pools_), 16);
}

TEST_F(PrefixHits, APlannedPrefixThatIsNotCachedIsRefusedAndNothingIsTaken) {
  leave_behind(40);
  const SequenceId id = table_.add(prefilling(70));
  EXPECT_EQ(refusal({.prefill = {{id, 48, 22}}, .hits = {{id, 48}}}), Reason::length_mismatch);
  EXPECT_EQ(refusal({.prefill = {{id, 0, 22}}, .hits = {{id, 0}}}), Reason::length_mismatch);
  EXPECT_EQ(refusal({.prefill = {{id, 16, 22}}, .hits = {{id, 32}}}), Reason::length_mismatch);
  EXPECT_EQ(refusal({.prefill = {{id, 32, 22}}}), Reason::length_mismatch);
  EXPECT_EQ(refusal({.hits = {{id, 32}}}), Reason::invalid_request);
  EXPECT_EQ(refusal({.prefill = {{id, 32, 22}}, .hits = {{id, 32}, {id, 32}}}),
            Reason::invalid_request);
  EXPECT_EQ(pools_.counts(0).references[0], 0);
  EXPECT_TRUE(prepare_step({.prefill = {{id, 16, 22}}, .hits = {{id, 16}}}, table_, pools_));
}

TEST_F(PrefixHits, NoRowOfAStepEvictsThePrefixThatAnotherOneOfItTakes) {
  // All twelve blocks are cached; the first prompt evicts the longest unused: those of the second.
  leave_behind(5 * size);
  SequenceSpec other = with_prefix(spec_of(7 * size));
  other.prompt = ids_of(7 * size, 50);
  Sequence stranger = Sequence::for_prefill(other, test_limits).value();
  ASSERT_TRUE(stranger.reserve(pools_, 7 * size));
  stranger.advance(7 * size, 1, pools_);
  stranger.release(pools_);
  ASSERT_EQ(pools_.counts(0).free, 0);
  SequenceSpec fresh = with_prefix(spec_of(6 * size));
  fresh.prompt = ids_of(6 * size, 77);
  const SequenceId first = table_.add(Sequence::for_prefill(fresh, test_limits).value());
  const SequenceId second = table_.add(prefilling(5 * size + 1));
  limits_.token_budget = 4096;
  const StepPlan step = plan();
  EXPECT_EQ(step.hits, (std::vector<PrefixHit>{{second, 5 * size}}));
  ASSERT_TRUE(prepare_step(step, table_, pools_).has_value());
  EXPECT_EQ(table_.find(second)->cached(), 5 * size);
  EXPECT_EQ(table_.find(first)->cached(), 0);
  EXPECT_EQ(pools_.available_blocks(0), 0);
}

TEST_F(PrefixHits, APromptThatFitsOnlyBesideItsOwnPrefixWaits) {
  leave_behind(5 * size);
  const SequenceId decoding = add_decoding(table_, pools_, 6 * size);
  const SequenceId id = table_.add(prefilling(6 * size));  // 5 cached ones and 1: too many by one
  const StepPlan step = plan();
  EXPECT_TRUE(step.prefill.empty());
  EXPECT_EQ(step.decode.size(), 1u);
  ASSERT_TRUE(prepare_step(step, table_, pools_).has_value());
  table_.remove(decoding, pools_);
  EXPECT_EQ(plan().prefill.size(), 1u);
  table_.remove(id, pools_);
}

TEST_F(PrefixHits, AVictimTakesBackWhatItLeftAndThatIsNoHitOfItsPrompt) {
  const SequenceId id = table_.add(prefilling(70));
  ASSERT_TRUE(prepare_step(plan(), table_, pools_).has_value());
  table_.find(id)->advance(70, table_.next_step(), pools_);
  table_.find(id)->append(5);
  table_.find(id)->preempt(pools_);
  const StepPlan again = plan();
  EXPECT_EQ(again.hits, (std::vector<PrefixHit>{{id, 64}}));
  EXPECT_EQ(again.prefill, (std::vector<PrefillRows>{{id, 64, 7}}));
  ASSERT_TRUE(prepare_step(again, table_, pools_).has_value());
  EXPECT_EQ(table_.find(id)->prefix_hit(), 0);
}

TEST_F(PrefixHits, AHandedOverSequenceLeavesWhatIsWholeOfIt) {
  kvcache::BlockPools pools(
      {.block_positions = size, .groups = {{.blocks = 12}, {.blocks = 8, .window = 20}}});
  kvcache::SequenceBlocks blocks;
  ASSERT_TRUE(pools.extend(blocks, {.next = 66, .end = 68}));
  Sequence sequence =
      Sequence::for_decode(with_prefix(spec_of(67, {5})), test_limits, 67, blocks, pools, {0, 48})
          .value();
  EXPECT_EQ(pools.cached_prefix(sequence.prefix_keys(), 67), 0);
  sequence.seal(pools);
  sequence.release(pools);
  EXPECT_EQ(pools.counts(0).cached, 4);
  EXPECT_EQ(pools.counts(1).cached, 1) << "positions 48 to 63";
}

}  // namespace
}  // namespace baton::engine
