// Plans while the rates are still learnt: what has not been measured yet must get to be.
#include <algorithm>

#include <gtest/gtest.h>

#include "core_fixture.h"

namespace baton::engine {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

/// A step's fixed cost, the cost of a row and that of a key.
struct Machine {
  Duration step{};
  Duration row{};
  Duration key{};

  Duration took(const StepShape& shape) const { return step + row * shape.rows + key * shape.keys; }
};

/// Sequences whose steps take what the machine says.
class World {
 public:
  World(const Machine& machine, Duration shared_step) : machine_(machine) {
    limits_.shared_step = shared_step;
  }

  void add_streams(int count) {
    for (int i = 0; i < count; ++i) {
      SequenceSpec spec = spec_of(10);
      spec.params.max_tokens = 900;
      Sequence sequence = Sequence::for_prefill(std::move(spec), test_limits).value();
      EXPECT_TRUE(sequence.reserve(pools_, 10));
      sequence.advance(10, table_.next_step(), pools_);
      sequence.append(99);
      table_.add(std::move(sequence));
    }
  }
  void add_prompts(int count) {
    for (int i = 0; i < count; ++i) add_prompt(table_, 900);
  }
  StepPlan plan() const { return plan_mixed(table_, pools_, rates_, limits_).step; }
  /// What it took.
  Duration compute(const StepPlan& step) {
    EXPECT_TRUE(prepare_step(step, table_, pools_).has_value());
    const std::uint64_t number = table_.next_step();
    for (const DecodeRow& row : step.decode) {
      table_.find(row.sequence)->advance(1, number, pools_);
      table_.find(row.sequence)->append(99);
    }
    for (const PrefillRows& rows : step.prefill) {
      Sequence& sequence = *table_.find(rows.sequence);
      sequence.advance(rows.count, number, pools_);
      if (sequence.cached() == sequence.length()) table_.remove(rows.sequence, pools_);
    }
    const Duration took = machine_.took(step.shape);
    rates_.observe(step.shape, took);
    return took;
  }
  bool has_backlog() const {
    return std::any_of(table_.all().begin(), table_.all().end(),
                       [](const auto& each) { return each.second.phase() == Phase::prefill; });
  }
  void observe(const StepShape& shape) { rates_.observe(shape, machine_.took(shape)); }

 private:
  Machine machine_;
  kvcache::BlockPools pools_ = pools_of(4'000);
  SequenceTable table_;
  RateModel rates_;
  PlanLimits limits_{.token_budget = 512, .chunk_rows = 512, .layers = 30};
};

constexpr Duration shared_step = milliseconds(66);

TEST(PlannerRates, AfterLargeStepsAloneASharedOneHasTheRowsThatFitInProportion) {
  World world({.row = microseconds(2500)}, shared_step);
  world.observe({512, 0});
  world.add_streams(1);
  world.add_prompts(20);
  const StepPlan step = world.plan();
  EXPECT_EQ(step.decode.size(), 1U);
  EXPECT_GT(step.shape.rows, 13);
  EXPECT_LE(step.shape.rows * microseconds(2500), shared_step);
}

/// Prompts come first, then streams among them; what a step costs whatever it computes is from
/// nothing to more than the limit.
TEST(PlannerRates, AfterABurstOfPromptsFewSharedStepsAreLongerThanTheLimit) {
  for (const int fixed_ms : {0, 5, 30, 60, 90}) {
    for (const int streams : {1, 3, 8}) {
      const Machine machine{milliseconds(fixed_ms), microseconds(2500), Duration(20)};
      World world(machine, shared_step);
      world.add_prompts(60);
      for (int i = 0; i < 2; ++i) world.compute(world.plan());
      world.add_streams(streams);
      const Duration alone = machine.took({streams, 300 * streams});
      const Duration limit = std::max(shared_step, alone + alone / 4);
      int steps = 0;
      int shared = 0;
      for (; world.has_backlog() && steps < 800; ++steps) {
        const StepPlan step = world.plan();
        const Duration took = world.compute(step);
        if (steps < 12 || step.prefill.empty()) continue;
        ++shared;
        ASSERT_LE(took, limit + limit / 10) << fixed_ms << " ms, " << streams << " streams, step "
                                            << steps << " of " << step.shape.rows << " rows";
      }
      EXPECT_GT(shared, steps / 3) << "prompts go on";
    }
  }
}

/// Steps of up to eight rows were measured; twice that is tried when what its rows see allows it.
StepPlan step_beside_eight_streams(std::int64_t prompt_position) {
  auto pools = pools_of(2'000);
  SequenceTable table;
  for (int i = 0; i < 8; ++i) add_decoding(table, pools, 10);
  const ModelLimits long_context{.vocabulary = 100, .context_length = 10'000};
  Sequence prompt = Sequence::for_prefill(spec_of(prompt_position + 500), long_context).value();
  EXPECT_TRUE(prompt.reserve(pools, prompt_position));
  if (prompt_position > 0) prompt.advance(prompt_position, table.next_step(), pools);
  table.add(std::move(prompt));
  RateModel rates({.per_row = milliseconds(5), .per_key = microseconds(2)});
  for (const std::int64_t rows : {1, 2, 4, 8}) rates.observe({rows, 0}, milliseconds(60));
  return plan_mixed(table, pools, rates, {.shared_step = milliseconds(100), .layers = 30}).step;
}

TEST(PlannerRates, TwiceTheMeasuredSizeIsTriedOnlyWhereWhatItsRowsSeeFits) {
  EXPECT_EQ(step_beside_eight_streams(0).shape.rows, 16);
  const StepPlan deep = step_beside_eight_streams(8'000);
  EXPECT_FALSE(deep.prefill.empty());
  EXPECT_LE(deep.predicted, milliseconds(100));
}

}  // namespace
}  // namespace baton::engine
