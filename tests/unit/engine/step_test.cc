#include "baton/engine/core/step.h"

#include <gtest/gtest.h>

#include "core_fixture.h"

namespace baton::engine {
namespace {

class StepTest : public testing::Test {
 protected:
  Reason refusal(const StepPlan& plan) {
    const auto result = prepare_step(plan, table_, pools_);
    return result.has_error() ? result.error().reason() : Reason::internal;
  }

  kvcache::BlockPools pools_{{.block_positions = 16, .groups = {{.blocks = 4}}}};
  SequenceTable table_;
};

TEST_F(StepTest, ADecodeRowAtTheWrongPositionIsRefusedAndTakesNothing) {
  const SequenceId id = add_decoding(table_, pools_, 16);
  for (const std::int64_t position : {0, 15, 17}) {
    EXPECT_EQ(refusal({.decode = {{id, position}}}), Reason::length_mismatch);
  }
  EXPECT_EQ(pools_.available_blocks(0), 3);
  EXPECT_TRUE(prepare_step({.decode = {{id, 16}}}, table_, pools_).has_value());
  EXPECT_EQ(pools_.available_blocks(0), 2);
}

TEST_F(StepTest, APromptOfOneTokenIsNotTakenForADecodeStep) {
  const SequenceId id = add_prompt(table_, 1);
  EXPECT_EQ(refusal({.decode = {{id, 0}}}), Reason::invalid_request);
  EXPECT_TRUE(prepare_step({.prefill = {{id, 0, 1}}}, table_, pools_).has_value());
}

TEST_F(StepTest, APromptCannotBeAppendedTwice) {
  const SequenceId decoding = add_decoding(table_, pools_, 5);
  EXPECT_EQ(refusal({.prefill = {{decoding, 0, 5}}}), Reason::invalid_request);
  EXPECT_EQ(refusal({.prefill = {{decoding, 5, 1}}}), Reason::invalid_request);
  const SequenceId prompt = add_prompt(table_, 5);
  EXPECT_EQ(refusal({.prefill = {{prompt, 0, 6}}}), Reason::invalid_request);
  EXPECT_EQ(refusal({.prefill = {{prompt, 0, 0}}}), Reason::invalid_request);
  EXPECT_EQ(refusal({.prefill = {{prompt, 1, 2}}}), Reason::length_mismatch);
  EXPECT_EQ(refusal({.prefill = {{prompt, 0, 2}, {prompt, 2, 3}}}), Reason::invalid_request);
}

TEST_F(StepTest, UnknownSequencesAndFullPoolsAreTypedErrors) {
  EXPECT_EQ(refusal({.decode = {{SequenceId(77), 0}}}), Reason::invalid_request);
  const SequenceId id = add_prompt(table_, 65);
  EXPECT_EQ(refusal({.prefill = {{id, 0, 10}}}), Reason::no_space);
  EXPECT_EQ(pools_.available_blocks(0), 4);
}

}  // namespace
}  // namespace baton::engine
