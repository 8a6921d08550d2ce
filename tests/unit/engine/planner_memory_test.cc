// Who gets the cache's blocks in a plan, who waits for them and who gives them up.
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "core_fixture.h"

namespace baton::engine {
namespace {

TEST(Planner, TheYoungestGivesWayWhenAnOlderOneCannotGrow) {
  auto pools = pools_of(3);
  SequenceTable table;
  const SequenceId oldest = add_decoding(table, pools, 16);
  add_decoding(table, pools, 10);
  const SequenceId youngest = add_decoding(table, pools, 10);
  const auto decision = plan_mixed(table, pools, one_ms_a_row(), limits_of(64));
  EXPECT_EQ(decision.preempt, std::vector<SequenceId>{youngest});
  ASSERT_EQ(decision.step.decode.size(), 2u);
  EXPECT_EQ(decision.step.decode[0].sequence, oldest);
}

TEST(Planner, TheYoungestItselfWaitsRatherThanPreemptAnOlderOne) {
  auto pools = pools_of(2);
  SequenceTable table;
  const SequenceId oldest = add_decoding(table, pools, 10);
  add_decoding(table, pools, 16);
  const auto decision = plan_mixed(table, pools, one_ms_a_row(), limits_of(64));
  EXPECT_TRUE(decision.preempt.empty());
  EXPECT_TRUE(decision.cannot_grow.empty());
  EXPECT_EQ(decision.step.decode, (std::vector<DecodeRow>{{oldest, 10}}));
}

TEST(Planner, NobodyIsPreemptedWhenThatWouldNotBeEnough) {
  auto pools = pools_of(2);
  SequenceTable table;
  add_decoding(table, pools, 16);
  add_decoding(table, pools, 10);
  const auto pinned = table.all().rbegin()->second.blocks().group(0).ref(0);
  pools.hold(0, pinned, kvcache::HolderKind::send_pin);
  const auto decision = plan_mixed(table, pools, one_ms_a_row(), limits_of(64));
  EXPECT_TRUE(decision.preempt.empty());
  EXPECT_EQ(decision.step.decode.size(), 1u);
}

TEST(Planner, ASequenceThatHasThePoolToItselfAndCannotGrowIsGivenUp) {
  auto pools = pools_of(2);
  SequenceTable table;
  const SequenceId id = add_decoding(table, pools, 32);
  const auto decision = plan_mixed(table, pools, one_ms_a_row(), limits_of(64));
  EXPECT_EQ(decision.cannot_grow, std::vector<SequenceId>{id});
  EXPECT_TRUE(decision.step.empty());
}

TEST(Planner, HNG14APromptStartsOnlyWhenAllOfItFitsAndNobodyOvertakesIt) {
  auto pools = pools_of(5);
  SequenceTable table;
  const SequenceId running = add_decoding(table, pools, 20);
  add_prompt(table, 64);  // 4 blocks, 3 are free
  add_prompt(table, 5);
  auto decision = plan_mixed(table, pools, one_ms_a_row(), limits_of(64));
  EXPECT_TRUE(decision.step.prefill.empty());
  EXPECT_EQ(decision.step.decode.size(), 1u);
  table.remove(running, pools);
  decision = plan_mixed(table, pools, one_ms_a_row(), limits_of(64));
  EXPECT_EQ(decision.step.prefill.size(), 2u);
}

/// 48 positions of it are computed.
void add_started_prompt(SequenceTable& table, kvcache::BlockPools& pools, SequenceSpec spec) {
  Sequence prompt = Sequence::for_prefill(std::move(spec), test_limits).value();
  ASSERT_TRUE(prompt.reserve(pools, 48));
  prompt.advance(48, table.next_step(), pools);
  table.add(std::move(prompt));
}

TEST(Planner, StartedPromptsThatWaitForEachOthersWindowBlocksAreUntied) {
  kvcache::BlockPools pools(
      {.block_positions = 16, .groups = {{.blocks = 100}, {.blocks = 6, .window = 48}}});
  SequenceTable table;
  for (int i = 0; i < 2; ++i) add_started_prompt(table, pools, spec_of(100));
  const auto decision = plan_prefill(table, pools, one_ms_a_row(), limits_of(64));
  EXPECT_TRUE(decision.step.empty());
  EXPECT_EQ(decision.preempt, std::vector<SequenceId>{SequenceId(2)});
}

/// The younger one would start first again and take back what it gave.
TEST(Planner, OfStartedPromptsThatWaitForEachOtherTheLaterDeadlineGivesWay) {
  kvcache::BlockPools pools(
      {.block_positions = 16, .groups = {{.blocks = 100}, {.blocks = 6, .window = 48}}});
  SequenceTable table;
  for (const int deadline : {9, 5}) {
    SequenceSpec spec = spec_of(100);
    spec.deadline = Instant(std::chrono::seconds(deadline));
    add_started_prompt(table, pools, std::move(spec));
  }
  const auto decision = plan_prefill(table, pools, one_ms_a_row(), limits_of(64));
  EXPECT_EQ(decision.preempt, std::vector<SequenceId>{SequenceId(1)});
}

/// The older is in prefill, so that the younger can preempt nobody to get its block.
TEST(Planner, AStreamThatHoldsThePromptsWindowBlockWhileBothWaitGivesWay) {
  kvcache::BlockPools pools(
      {.block_positions = 16, .groups = {{.blocks = 100}, {.blocks = 3, .window = 24}}});
  SequenceTable table;
  add_started_prompt(table, pools, spec_of(100));
  const SequenceId stream = add_decoding(table, pools, 16);
  ASSERT_EQ(pools.available_blocks(1), 0);
  const auto decision = plan_mixed(table, pools, one_ms_a_row(), limits_of(64));
  EXPECT_TRUE(decision.step.empty());
  EXPECT_EQ(decision.preempt, std::vector<SequenceId>{stream});
  table.find(stream)->preempt(pools);
  EXPECT_FALSE(plan_mixed(table, pools, one_ms_a_row(), limits_of(64)).step.empty());
}

TEST(Planner, AHolderThatWaitsAloneKeepsItsBlocks) {
  kvcache::BlockPools pools(
      {.block_positions = 16, .groups = {{.blocks = 100}, {.blocks = 3, .window = 24}}});
  SequenceTable table;
  const SequenceId stream = add_decoding(table, pools, 16);
  kvcache::SequenceBlocks received;  // by a transfer
  ASSERT_TRUE(pools.extend(received, {.next = 0, .end = 32}));
  const auto decision = plan_mixed(table, pools, one_ms_a_row(), limits_of(64));
  EXPECT_TRUE(decision.step.empty());
  EXPECT_TRUE(decision.preempt.empty());
  EXPECT_FALSE(table.find(stream)->blocks().empty());
}

/// The prefill node's: what it has computed waits to be handed over.
TEST(Planner, AComputedPromptKeepsItsBlocksWhenAnotherOneWaitsForThem) {
  kvcache::BlockPools pools(
      {.block_positions = 16, .groups = {{.blocks = 100}, {.blocks = 3, .window = 24}}});
  SequenceTable table;
  add_started_prompt(table, pools, spec_of(100));
  add_decoding(table, pools, 16);
  const auto decision = plan_prefill(table, pools, one_ms_a_row(), limits_of(64));
  EXPECT_TRUE(decision.step.empty());
  EXPECT_TRUE(decision.preempt.empty());
}

/// It has waited longest, at every plan.
TEST(Planner, AStreamWithoutABlockDoesNotUseUpTheRowsOfAStep) {
  auto pools = pools_of(3);
  SequenceTable table;
  const SequenceId older = add_decoding(table, pools, 20);
  add_decoding(table, pools, 16);
  table.find(older)->advance(1, table.next_step(), pools);
  table.find(older)->append(99);
  const auto decision = plan_mixed(table, pools, one_ms_a_row(), limits_of(1));
  EXPECT_EQ(decision.step.decode, (std::vector<DecodeRow>{{older, 21}}));
  EXPECT_TRUE(decision.preempt.empty());
}

TEST(Planner, WhoHasARowInAStepIsNotPreemptedForOneThatGetsItsTurnLater) {
  auto pools = pools_of(4);
  SequenceTable table;
  const SequenceId oldest = add_decoding(table, pools, 15);
  const SequenceId middle = add_decoding(table, pools, 20);
  add_decoding(table, pools, 16);
  const auto pinned = table.all().rbegin()->second.blocks().group(0).ref(0);
  pools.hold(0, pinned, kvcache::HolderKind::send_pin);
  table.find(oldest)->advance(1, table.next_step(), pools);  // has waited least
  table.find(oldest)->append(99);
  const auto decision = plan_mixed(table, pools, one_ms_a_row(), limits_of(2));
  EXPECT_TRUE(decision.preempt.empty());
  EXPECT_EQ(decision.step.decode, (std::vector<DecodeRow>{{middle, 20}}));
}

class PlannerAndPrefix : public testing::Test {
 protected:
  static Sequence prefilling(std::vector<TokenId> prompt) {
    SequenceSpec spec;
    spec.prompt = std::move(prompt);
    spec.params.max_tokens = 50;
    spec.prefix.emplace(prefix::Key(), 16);
    return Sequence::for_prefill(std::move(spec), test_limits).value();
  }
  SequenceId decoding(std::int64_t prompt_length, TokenId first) {
    Sequence sequence = prefilling(ids_of(prompt_length, first));
    EXPECT_TRUE(sequence.reserve(pools_, prompt_length));
    sequence.advance(prompt_length, table_.next_step(), pools_);
    sequence.append(99);
    return table_.add(std::move(sequence));
  }

  kvcache::BlockPools pools_ = pools_of(11);
  SequenceTable table_;
};

TEST_F(PlannerAndPrefix, BlocksOfAVictimAreNotCountedForAPromptThatTakesThemItself) {
  decoding(64, 70);  // needs its fifth block
  const SequenceId victim = decoding(110, 1);
  std::vector<TokenId> prompt = ids_of(110, 1);
  prompt.resize(140, 50);
  const SequenceId waiting = table_.add(prefilling(prompt));  // six of the victim's and three more
  const PlanDecision decision = plan_mixed(table_, pools_, one_ms_a_row(), limits_of(512));
  ASSERT_EQ(decision.preempt, std::vector<SequenceId>{victim});
  table_.find(victim)->preempt(pools_);
  EXPECT_EQ(table_.find(waiting)->cached_prefix(pools_), 96);
  ASSERT_TRUE(prepare_step(decision.step, table_, pools_).has_value());
  EXPECT_EQ(decision.step.decode.size(), 1U);
}

/// A step of the random world: every sequence generates the same id.
void compute(const StepPlan& step, SequenceTable& table, kvcache::BlockPools& pools) {
  std::vector<SequenceId> sampled;
  for (const DecodeRow& row : step.decode) {
    table.find(row.sequence)->advance(1, 1, pools);
    sampled.push_back(row.sequence);
  }
  for (const PrefillRows& rows : step.prefill) {
    Sequence& sequence = *table.find(rows.sequence);
    sequence.advance(rows.count, 1, pools);
    if (sequence.cached() == sequence.length()) sampled.push_back(rows.sequence);
  }
  for (const SequenceId id : sampled) {
    if (table.find(id)->append(1)) table.remove(id, pools);
  }
}

/// Prompts that begin alike, some of which leave their prefix behind.
Sequence random_prompt(std::mt19937_64& random) {
  SequenceSpec spec = spec_of(1 + static_cast<std::int64_t>(random() % 120));
  spec.params.max_tokens = 1 + static_cast<std::int64_t>(random() % 60);
  if (random() % 4 != 0) spec.prefix.emplace(prefix::Key(), 16);
  return Sequence::for_prefill(std::move(spec), test_limits).value();
}

/// Any plan can be prepared: what the planner counts is what the pools give.
TEST(Planner, EveryPlanOfARandomWorldCanBePreparedAndTheWorldEnds) {
  std::size_t preempted = 0;
  std::size_t hits = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    std::mt19937_64 random(seed);
    kvcache::BlockPools pools(
        {.block_positions = 16, .groups = {{.blocks = 14}, {.blocks = 8, .window = 24}}});
    SequenceTable table;
    for (int i = 0; i < 8; ++i) table.add(random_prompt(random));
    const int small = static_cast<int>(seed % 4);
    int steps = 0;
    while (!table.all().empty()) {
      ASSERT_LT(++steps, 5'000) << "seed " << seed;
      const auto decision =
          plan_mixed(table, pools, one_ms_a_row(),
                     limits_of(small > 0 ? small : 1 + static_cast<int>(random() % 70)));
      for (const SequenceId id : decision.preempt) table.find(id)->preempt(pools);
      preempted += decision.preempt.size();
      hits += decision.step.hits.size();
      ASSERT_TRUE(decision.cannot_grow.empty());
      ASSERT_TRUE(prepare_step(decision.step, table, pools).has_value()) << "seed " << seed;
      compute(decision.step, table, pools);
    }
    EXPECT_EQ(pools.available_blocks(0), 14);
    EXPECT_EQ(pools.available_blocks(1), 8);
  }
  EXPECT_GT(preempted, 20U);
  EXPECT_GT(hits, 20U);
}

}  // namespace
}  // namespace baton::engine
