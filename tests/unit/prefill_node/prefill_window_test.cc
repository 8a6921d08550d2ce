// A model with window groups: what leaves the window is free again while the prompt is computed.
#include "prefill_fixture.h"

namespace baton::prefill_node {
namespace {

class PrefillWindow : public PrefillFixture {
 protected:
  static kvcache::PoolConfig window_pools(int blocks, int window) {
    kvcache::PoolConfig config;
    config.block_positions = 16;
    config.groups = {{64, 0}, {blocks, window}};
    return config;
  }
  /// Until nothing more can be computed.
  void run() {
    for (begin_step(); !plan.empty(); begin_step()) {
      layer(0);
      layer(1);
      end_step();
    }
  }
};

TEST_F(PrefillWindow, APromptLongerThanTheWindowsPoolIsComputed) {
  core_ = PrefillCore(worker::small_limits(), window_pools(8, 24));
  prefill(key(1), 200);  // 13 blocks
  run();
  EXPECT_EQ(told<protocol::Tokens>().size(), 1U);
  accept(key(1));
  idle(source());
  say(protocol::Release{key(1)});
  expect_baseline();
}

TEST_F(PrefillWindow, WhatAHandoffNeedsStaysPinnedUntilNoSendIsOpen) {
  core_ = PrefillCore(worker::small_limits(), window_pools(8, 24));
  prefill(key(1), 200);
  run();
  accept(key(1));
  // Positions from 200 - 23 on: blocks 11 and 12.
  EXPECT_EQ(core_.pools().counts(1).references[1], 2);
  EXPECT_EQ(core_.pools().available_blocks(1), 6);
  EXPECT_EQ(core_.pools().counts(0).references[1], 13);
  idle(source());
  EXPECT_EQ(core_.pools().available_blocks(1), 8);
}

TEST_F(PrefillWindow, TheSenderIsGivenEveryBlockThatItSendsFrom) {
  core_ = PrefillCore(worker::small_limits(), window_pools(8, 24));
  prefill(key(1), 200);
  run();
  const handoff::LocalBlocks last = commands<handoff::ExtendSource>().back().blocks[1];
  EXPECT_LE(last.first_block, handoff::first_needed_unit(24, 200));
  EXPECT_EQ(last.first_block + last.blocks.size(), handoff::end_unit(200));
}

// ---- prompts that hold the window blocks that each of them waits for ----

/// Two prompts that have come to position 48 fill six blocks, and each needs another one.
class PrefillGivesWay : public PrefillWindow {
 protected:
  explicit PrefillGivesWay(int blocks = 6) {
    worker::NodeLimits limits = worker::small_limits();
    limits.plan.chunk_rows = 16;
    core_ = PrefillCore(limits, window_pools(blocks, 40));
  }
  void prompt(std::uint64_t request, std::size_t length = 200) {
    protocol::Prefill message{key(request), work(length), 5000, true};
    message.work.prompt_ids.assign(length, static_cast<TokenId>(10 + request));
    say(message);
  }
  handoff::SourceId source_of(std::uint64_t request) const {
    handoff::SourceId out;
    for (const auto& each : commands<handoff::BeginSource>()) {
      if (each.key.request == key(request).request) out = each.source;
    }
    return out;
  }
  void hand_over(std::uint64_t request) {
    event(handoff::SourceAccepted{source_of(request), key(request), {}, {}});
    idle(source_of(request));
    say(protocol::Release{key(request)});
  }
};

TEST_F(PrefillGivesWay, OfTwoThatWaitForEachOtherTheYoungerIsComputedAgain) {
  prompt(1);
  prompt(2);
  run();
  EXPECT_EQ(counted(Countable::preempted), 1);
  ASSERT_EQ(commands<handoff::AbortSource>().size(), 1U);
  const handoff::SourceId given_up = commands<handoff::AbortSource>()[0].source;
  EXPECT_EQ(given_up, source_of(2));
  idle(given_up);
  run();
  EXPECT_EQ(told<protocol::Tokens>().size(), 1U);
  hand_over(1);
  run();
  EXPECT_EQ(told<protocol::Tokens>().size(), 2U);
  EXPECT_NE(source_of(2), given_up);
  EXPECT_EQ(told<protocol::HandoffEnded>().size(), 1U);  // of the first, accepted
  hand_over(2);
  EXPECT_EQ(counted(Countable::preempted), 1);
  expect_baseline();
}

TEST_F(PrefillGivesWay, AGrantThatMayBePartlyFilledIsGivenUp) {
  prompt(1);
  prompt(2);
  target(key(2));
  run();
  ASSERT_EQ(told<protocol::HandoffEnded>().size(), 1U);
  EXPECT_EQ(told<protocol::HandoffEnded>()[0].key, key(2));
  EXPECT_EQ(told<protocol::HandoffEnded>()[0].reason, Reason::no_space);
  target(key(2));  // repeated, as a new connection does
  EXPECT_EQ(told<protocol::HandoffEnded>().size(), 2U);
  target(key(2, 1, 2));
  idle(source_of(2));
  run();
  hand_over(1);
  run();
  EXPECT_EQ(commands<handoff::SetTarget>().size(), 2U);
  EXPECT_EQ(commands<handoff::SetTarget>().back().source, source_of(2));
  EXPECT_EQ(commands<handoff::SetTarget>().back().key, key(2, 1, 2));
}

TEST_F(PrefillGivesWay, APromptThatGaveWayLeavesNothingBehindWhenItIsCancelled) {
  prompt(1);
  prompt(2);
  run();
  const handoff::SourceId given_up = source_of(2);
  say(protocol::Cancel{key(2)});
  idle(given_up);
  EXPECT_EQ(commands<handoff::AbortSource>().size(), 1U);
  run();
  hand_over(1);
  expect_baseline();
}

/// Three that have come to position 48 fill nine.
class PrefillThree : public PrefillGivesWay {
 protected:
  PrefillThree() : PrefillGivesWay(9) {}
};

TEST_F(PrefillThree, OneGivesWayAtATimeWhileItsSendsAreOpen) {
  for (std::uint64_t request = 1; request <= 3; ++request) prompt(request, 54);
  run();
  EXPECT_EQ(core_.pools().available_blocks(1), 0);  // a handoff of 54 needs all blocks
  begin_step();
  EXPECT_TRUE(plan.empty());
  EXPECT_EQ(counted(Countable::preempted), 1);
  idle(source_of(3));
  run();
  EXPECT_EQ(told<protocol::Tokens>().size(), 2U);
  EXPECT_EQ(counted(Countable::preempted), 1);
}

TEST_F(PrefillThree, NobodyGivesWayForBlocksThatAHandoffWillFree) {
  prompt(1, 48);
  prompt(2);
  prompt(3);
  run();
  EXPECT_EQ(told<protocol::Tokens>().size(), 1U);
  EXPECT_EQ(counted(Countable::preempted), 0);
  hand_over(1);
  run();
  EXPECT_GT(told<protocol::Tokens>().size(), 1U);
  EXPECT_EQ(counted(Countable::preempted), 0);
}

}  // namespace
}  // namespace baton::prefill_node
