#include "baton/engine/core/planner.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "core_fixture.h"

namespace baton::engine {
namespace {

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

}  // namespace
}  // namespace baton::engine
