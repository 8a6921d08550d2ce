#include "baton/engine/core/planner.h"

#include <algorithm>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "core_fixture.h"

namespace baton::engine {
namespace {

kvcache::BlockPools pools_of(std::int32_t blocks) {
  return kvcache::BlockPools({.block_positions = 16, .groups = {{.blocks = blocks}}});
}

/// Every row costs 1 ms, keys nothing to speak of.
RateModel one_ms_a_row() {
  return RateModel(
      {.per_row = std::chrono::milliseconds(1), .per_key = std::chrono::nanoseconds(1)});
}

PlanLimits limits_of(std::int64_t budget) {
  return {.token_budget = budget, .chunk_rows = budget, .layers = 30};
}

TEST(Planner, ShortPromptsShareAStep) {
  auto pools = pools_of(100);
  SequenceTable table;
  for (int i = 0; i < 4; ++i) add_prompt(table, 10);
  const auto decision = plan_prefill(table, pools, one_ms_a_row(), limits_of(64));
  ASSERT_EQ(decision.step.prefill.size(), 4u);
  EXPECT_EQ(decision.step.shape.rows, 40);
}

TEST(Planner, ALongPromptAloneTakesTheWholeBudgetAndBesideOthersHalf) {
  auto pools = pools_of(100);
  SequenceTable table;
  const SequenceId long_one = add_prompt(table, 500);
  auto decision = plan_prefill(table, pools, one_ms_a_row(), limits_of(64));
  EXPECT_EQ(decision.step.prefill, (std::vector<PrefillRows>{{long_one, 0, 64}}));
  const SequenceId short_one = add_prompt(table, 20);
  decision = plan_prefill(table, pools, one_ms_a_row(), limits_of(64));
  ASSERT_EQ(decision.step.prefill.size(), 2u);
  EXPECT_EQ(decision.step.prefill[0], (PrefillRows{long_one, 0, 32}));
  EXPECT_EQ(decision.step.prefill[1], (PrefillRows{short_one, 0, 20}));
}

TEST(Planner, EarlierDeadlinesGoFirst) {
  auto pools = pools_of(100);
  SequenceTable table;
  add_prompt(table, 40);
  SequenceSpec urgent = spec_of(40);
  urgent.deadline = Instant(std::chrono::seconds(1));
  const SequenceId id = table.add(Sequence::for_prefill(urgent, test_limits).value());
  const auto decision = plan_prefill(table, pools, one_ms_a_row(), limits_of(16));
  ASSERT_FALSE(decision.step.prefill.empty());
  EXPECT_EQ(decision.step.prefill[0].sequence, id);
}

TEST(Planner, PromptsBesideStreamsMakeNoStepLongerThanItsLimit) {
  auto pools = pools_of(1'000);
  SequenceTable table;
  for (int i = 0; i < 30; ++i) add_decoding(table, pools, 10);
  add_prompt(table, 900);
  const auto decision = plan_mixed(table, pools, one_ms_a_row(), limits_of(2'048));
  EXPECT_EQ(decision.step.decode.size(), 30u);
  ASSERT_EQ(decision.step.prefill.size(), 1u);
  EXPECT_GE(decision.step.prefill[0].count, 48);
  EXPECT_LE(decision.step.predicted, std::chrono::milliseconds(100));
  const auto pure = plan_prefill(table, pools, one_ms_a_row(), limits_of(2'048));
  EXPECT_GT(pure.step.predicted, std::chrono::milliseconds(100));
}

TEST(Planner, NewShortPromptsAtEveryStepDoNotKeepStreamsFromTheirTurns) {
  auto pools = pools_of(1'000);
  SequenceTable table;
  const SequenceId decoding = add_decoding(table, pools, 10);
  PlanLimits limits = limits_of(64);
  limits.shared_step = std::chrono::microseconds(1500);  // one row takes a millisecond
  int decoded = 0;
  for (int i = 0; i < 10; ++i) {
    const SequenceId prompt = add_prompt(table, 1);
    const StepPlan step = plan_mixed(table, pools, one_ms_a_row(), limits).step;
    ASSERT_TRUE(prepare_step(step, table, pools).has_value());
    const std::uint64_t number = table.next_step();
    for (const PrefillRows& rows : step.prefill) {
      table.find(rows.sequence)->advance(rows.count, number, pools);
      table.remove(rows.sequence, pools);  // its first token was its last
    }
    for (const DecodeRow& row : step.decode) {
      ASSERT_EQ(row.sequence, decoding);
      ++decoded;
      table.find(decoding)->advance(1, number, pools);
      table.find(decoding)->append(99);
    }
    table.remove(prompt, pools);
  }
  EXPECT_EQ(decoded, 5);
}

/// Eight streams and a prompt, on a machine where a step takes 60 ms and 5 for each row.
StepPlan step_of_eight_streams_and_a_prompt(Duration limit) {
  auto pools = pools_of(1'000);
  SequenceTable table;
  for (int i = 0; i < 8; ++i) add_decoding(table, pools, 10);
  add_prompt(table, 500);
  RateModel rates;
  for (const std::int64_t rows : {1, 2, 4, 8, 16, 32, 64, 128, 256, 512}) {
    rates.observe({rows, 0}, std::chrono::milliseconds(60 + 5 * rows));
  }
  PlanLimits limits = limits_of(2'048);
  limits.shared_step = limit;
  return plan_mixed(table, pools, rates, limits).step;
}

TEST(Planner, AllThatDecodeAreInAStepHoweverLongAndAPromptMakesItAQuarterLonger) {
  for (const int limit_ms : {1, 75, 100}) {
    const StepPlan step = step_of_eight_streams_and_a_prompt(std::chrono::milliseconds(limit_ms));
    EXPECT_EQ(step.decode.size(), 8U);
    ASSERT_EQ(step.prefill.size(), 1U);
    EXPECT_NEAR(static_cast<double>(step.prefill[0].count), 5, 1) << limit_ms;
  }
  const StepPlan step = step_of_eight_streams_and_a_prompt(std::chrono::milliseconds(200));
  EXPECT_NEAR(static_cast<double>(step.prefill[0].count), 20, 1);
}

/// Streams that take all of the limit, and no step that was ever larger: a prompt's rows grow.
TEST(Planner, APromptBesideStreamsFindsOutWhatMoreRowsCost) {
  auto pools = pools_of(1'000);
  SequenceTable table;
  for (int i = 0; i < 8; ++i) add_decoding(table, pools, 10);
  add_prompt(table, 500);
  RateModel rates;
  const auto took = [](std::int64_t rows) {
    return std::chrono::milliseconds(99) + std::chrono::microseconds(100) * rows;
  };
  for (const std::int64_t rows : {1, 2, 4, 8}) rates.observe({rows, 0}, took(rows));
  PlanLimits limits = limits_of(2'048);
  limits.shared_step = std::chrono::milliseconds(75);
  for (int i = 0; i < 8; ++i) {
    const StepPlan step = plan_mixed(table, pools, rates, limits).step;
    rates.observe(step.shape, took(step.shape.rows));
  }
  EXPECT_GE(plan_mixed(table, pools, rates, limits).step.shape.rows, 64);
}

TEST(Planner, NoLayerOfADecodeStepIsPlannedLongerThanItsLimit) {
  auto pools = pools_of(1'000);
  SequenceTable table;
  for (int i = 0; i < 300; ++i) add_decoding(table, pools, 10);
  PlanLimits limits = limits_of(2'048);
  limits.layers = 2;
  const StepPlan step = plan_mixed(table, pools, one_ms_a_row(), limits).step;
  EXPECT_LE(step.predicted, std::chrono::milliseconds(200));
  EXPECT_GE(step.decode.size(), 190U);
}

/// Twenty tokens behind nine hundred, where time allows few rows a step.
TEST(Planner, AShortPromptBesideStreamsIsNotHeldUpByALongOne) {
  auto pools = pools_of(1'000);
  SequenceTable table;
  for (int i = 0; i < 30; ++i) add_decoding(table, pools, 10);
  add_prompt(table, 900);
  const SequenceId short_one = add_prompt(table, 20);
  const StepPlan step = plan_mixed(table, pools, one_ms_a_row(), limits_of(2'048)).step;
  ASSERT_EQ(step.prefill.size(), 2U);
  EXPECT_EQ(step.prefill[1], (PrefillRows{short_one, 0, 20}));
}

TEST(Planner, WhereStreamsExceedTheLimitAPromptGetsTheRowsThatCostLittleMore) {
  auto pools = pools_of(1'000);
  SequenceTable table;
  add_decoding(table, pools, 10);
  const SequenceId prompt = add_prompt(table, 100);
  RateModel weights_bound;
  weights_bound.observe({1, 0}, std::chrono::milliseconds(10));
  weights_bound.observe({64, 0}, std::chrono::milliseconds(11));
  PlanLimits limits = limits_of(64);
  limits.shared_step = std::chrono::milliseconds(5);
  table.prepared_step(true);
  const StepPlan step = plan_mixed(table, pools, weights_bound, limits).step;
  ASSERT_EQ(step.prefill.size(), 1U);
  EXPECT_EQ(step.prefill[0].sequence, prompt);
  EXPECT_GT(step.prefill[0].count, 30);
}

TEST(Planner, WhereDecodingLeavesNoTimePromptsTakeTurnsWithIt) {
  auto pools = pools_of(1'000);
  SequenceTable table;
  const SequenceId decoding = add_decoding(table, pools, 10);
  const SequenceId prompt = add_prompt(table, 100);
  PlanLimits limits = limits_of(64);
  limits.shared_step = std::chrono::microseconds(1500);  // one row takes a millisecond
  int prefill_steps = 0;
  int shared_steps = 0;
  for (int i = 0; i < 10; ++i) {
    const StepPlan step = plan_mixed(table, pools, one_ms_a_row(), limits).step;
    ASSERT_TRUE(prepare_step(step, table, pools).has_value());
    EXPECT_LE(step.predicted, limits.shared_step);
    const std::uint64_t number = table.next_step();
    if (!step.prefill.empty()) {
      ++prefill_steps;
      EXPECT_EQ(step.prefill[0].sequence, prompt);
      table.find(prompt)->advance(step.prefill[0].count, number, pools);
    } else {
      ++shared_steps;
      table.find(decoding)->advance(1, number, pools);
      table.find(decoding)->append(99);
    }
  }
  EXPECT_EQ(prefill_steps, 5);
  EXPECT_EQ(shared_steps, 5);
}

TEST(Planner, ALayerIsNeverPlannedLongerThanItsLimit) {
  auto pools = pools_of(1'000);
  SequenceTable table;
  add_prompt(table, 900);
  PlanLimits limits = limits_of(2'048);
  limits.layers = 2;
  const auto decision = plan_prefill(table, pools, one_ms_a_row(), limits);
  EXPECT_LE(decision.step.predicted, std::chrono::milliseconds(200));
  EXPECT_GE(decision.step.shape.rows, 180);
}

TEST(Planner, TooManyDecodingSequencesTakeTurns) {
  auto pools = pools_of(1'000);
  SequenceTable table;
  for (int i = 0; i < 150; ++i) add_decoding(table, pools, 10);
  std::map<SequenceId, int> rows;
  for (int step = 0; step < 3; ++step) {
    const auto decision = plan_mixed(table, pools, one_ms_a_row(), limits_of(64));
    EXPECT_LE(decision.step.decode.size(), 64U);
    ASSERT_TRUE(prepare_step(decision.step, table, pools).has_value());
    const std::uint64_t number = table.next_step();
    for (const DecodeRow& row : decision.step.decode) {
      table.find(row.sequence)->advance(1, number, pools);
      table.find(row.sequence)->append(1);
      ++rows[row.sequence];
    }
  }
  EXPECT_EQ(rows.size(), 150u) << "each had a turn";
}

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

TEST(Planner, StartedPromptsThatWaitForEachOthersWindowBlocksAreUntied) {
  kvcache::BlockPools pools(
      {.block_positions = 16, .groups = {{.blocks = 100}, {.blocks = 6, .window = 48}}});
  SequenceTable table;
  for (int i = 0; i < 2; ++i) {
    Sequence sequence = Sequence::for_prefill(spec_of(100), test_limits).value();
    ASSERT_TRUE(sequence.reserve(pools, 48));
    sequence.advance(48, 1, pools);
    table.add(std::move(sequence));
  }
  const auto decision = plan_prefill(table, pools, one_ms_a_row(), limits_of(64));
  EXPECT_TRUE(decision.step.empty());
  EXPECT_EQ(decision.preempt, std::vector<SequenceId>{SequenceId(2)});
}

/// Any plan can be prepared: what the planner counts is what the pools give.
TEST(Planner, EveryPlanOfARandomWorldCanBePreparedAndTheWorldEnds) {
  std::size_t preempted = 0;
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    std::mt19937_64 random(seed);
    kvcache::BlockPools pools(
        {.block_positions = 16, .groups = {{.blocks = 14}, {.blocks = 8, .window = 24}}});
    SequenceTable table;
    for (int i = 0; i < 8; ++i) {
      SequenceSpec spec = spec_of(1 + static_cast<std::int64_t>(random() % 120));
      spec.params.max_tokens = 1 + static_cast<std::int64_t>(random() % 60);
      table.add(Sequence::for_prefill(spec, test_limits).value());
    }
    int steps = 0;
    while (!table.all().empty()) {
      ASSERT_LT(++steps, 5'000) << "seed " << seed;
      const auto decision =
          plan_mixed(table, pools, one_ms_a_row(), limits_of(8 + static_cast<int>(random() % 60)));
      for (const SequenceId id : decision.preempt) table.find(id)->preempt(pools);
      preempted += decision.preempt.size();
      ASSERT_TRUE(decision.cannot_grow.empty());
      ASSERT_TRUE(prepare_step(decision.step, table, pools).has_value()) << "seed " << seed;
      std::vector<SequenceId> sampled;
      for (const DecodeRow& row : decision.step.decode) {
        table.find(row.sequence)->advance(1, 1, pools);
        sampled.push_back(row.sequence);
      }
      for (const PrefillRows& rows : decision.step.prefill) {
        Sequence& sequence = *table.find(rows.sequence);
        sequence.advance(rows.count, 1, pools);
        if (sequence.cached() == sequence.length()) sampled.push_back(rows.sequence);
      }
      for (const SequenceId id : sampled) {
        if (table.find(id)->append(1)) table.remove(id, pools);
      }
    }
    EXPECT_EQ(pools.available_blocks(0), 14);
    EXPECT_EQ(pools.available_blocks(1), 8);
  }
  EXPECT_GT(preempted, 10u);
}

}  // namespace
}  // namespace baton::engine
