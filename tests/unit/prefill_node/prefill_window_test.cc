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

}  // namespace
}  // namespace baton::prefill_node
