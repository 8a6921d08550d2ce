// Room in the cache of a decode node: who gets it, in which order, and what is told about it.
#include "decode_fixture.h"

namespace baton::decode_node {
namespace {

/// A pool of eight blocks that is full until key(1) ends.
class FullPool : public DecodeFixture {
 protected:
  FullPool() {
    reserve(key(1), 100);
    forget();
  }
  void free_pool() {
    say(protocol::Cancel{key(1)});
    closed();
    forget();
  }
  /// Asks again every 100 ms for so long; legs count on, as a router's do.
  void keep_asking(std::uint64_t request, std::size_t prompt, Duration time,
                   bool prompt_ready = false) {
    for (Duration waited{}; waited <= time; waited += 100ms) {
      reserve(key(request, 1, ++leg_), prompt, 5, prompt_ready);
      now += 100ms;
    }
    forget();
  }
  bool granted(std::uint64_t request, std::size_t prompt) {
    forget();
    reserve(key(request, 1, ++leg_), prompt);
    return !told<protocol::Granted>().empty();
  }

 private:
  std::uint32_t leg_ = 1;
};

TEST_F(FullPool, BlocksThatGetFreeGoToTheOneThatHasWaitedLong) {  // HNG-28
  keep_asking(2, 90, 1200ms);
  free_pool();
  EXPECT_FALSE(granted(3, 5));
  EXPECT_TRUE(granted(2, 90));
}

TEST_F(FullPool, WhoHasItsSpaceHoldsNobodyUp) {
  keep_asking(2, 60, 1200ms);
  free_pool();
  ASSERT_TRUE(granted(2, 60));
  EXPECT_TRUE(granted(3, 5));
}

/// The other half of the circle: key(1)'s prompt waits for a cache that key(2)'s fills.
TEST_F(FullPool, AComputedPromptGetsTheBlocksOfOneThatIsNot) {  // HNG-28
  keep_asking(2, 60, 200ms, true);
  EXPECT_TRUE(commands<handoff::CloseGrant>().empty());
  reserve(key(2, 1, 100), 60, 5, true);
  const auto refused = told<protocol::Refused>();
  ASSERT_EQ(refused.size(), 2U);
  EXPECT_EQ(refused[0].key, key(1));
  EXPECT_EQ(refused[0].reason, Reason::no_space);
  EXPECT_EQ(refused[1].key, key(2, 1, 100));
  closed();
  forget();
  reserve(key(1, 1, 2), 100);  // asks again at once, and has to wait
  EXPECT_TRUE(told<protocol::Granted>().empty());
  reserve(key(2, 1, 101), 60, 5, true);
  EXPECT_EQ(told<protocol::Granted>().size(), 1U);
}

TEST_F(FullPool, OnlyAComputedPromptTakesAGrantBack) {
  keep_asking(2, 60, 3000ms);
  EXPECT_FALSE(granted(2, 60));
  EXPECT_TRUE(commands<handoff::CloseGrant>().empty());
}

TEST_F(FullPool, GrantsOfComputedPromptsAndOfRunningOnesAreKept) {
  free_pool();
  reserve(key(3), 50, 5, true);
  run(key(4));
  forget();
  keep_asking(2, 100, 3000ms, true);
  reserve(key(2, 1, 100), 100, 5, true);
  EXPECT_EQ(told<protocol::Refused>().size(), 1U);
}

TEST_F(FullPool, WhoWasCancelledHoldsNobodyUp) {
  keep_asking(2, 60, 1200ms);
  say(protocol::Cancel{key(2, 1, 100)});
  free_pool();
  EXPECT_TRUE(granted(3, 5));
}

TEST_F(DecodeFixture, LoadSaysWhatRunsAndWhatMayCome) {
  run(key(1), 2);
  run(key(2));
  reserve(key(3));
  protocol::Load load = core_.load();
  EXPECT_EQ(load.running, 2);
  EXPECT_EQ(load.queued, 1);
  EXPECT_EQ(load.handoffs, 1);
  EXPECT_EQ(load.capacity_tokens, 8 * 16);
  EXPECT_EQ(load.free_tokens, 4 * 16);  // all share the prompt's first block
  step();                               // the first request has its last token
  load = core_.load();
  EXPECT_EQ(load.running, 1);
  EXPECT_EQ(load.free_tokens, 5 * 16);
}

/// A full group of eight blocks and one with a window.
class Windowed : public DecodeFixture {
 protected:
  void make(int window, int blocks) {
    kvcache::PoolConfig pools = worker::small_pools(8);
    pools.groups.push_back({blocks, window});
    core_ = DecodeCore(worker::small_limits(), pools, 100);
  }
};

TEST_F(Windowed, APromptMustFitWhenItIsComputedAgainHere) {
  // A chunk of 32 rows sees 23 positions before itself: four blocks, where decoding needs three.
  make(24, 3);
  reserve(key(1), 60);
  ASSERT_EQ(told<protocol::Refused>().size(), 1U);
  EXPECT_EQ(told<protocol::Refused>()[0].reason, Reason::prompt_exceeds_pool);
  make(24, 4);
  reserve(key(1), 60);
  EXPECT_EQ(told<protocol::Granted>().size(), 1U);
}

TEST_F(Windowed, TheLastUnitOfThePromptComesEvenIfNoLaterQuerySeesIt) {
  make(1, 8);
  reserve(key(1), 32);
  ASSERT_EQ(told<protocol::Granted>().size(), 1U);
  const protocol::GrantGroup group = told<protocol::Granted>()[0].grant.groups[1];
  EXPECT_EQ(group.group, 1U);
  ASSERT_FALSE(group.slots.empty());
  verify(key(1));
  EXPECT_EQ(told_pair<protocol::Accepted>().size(), 1U);
}

/// Two requests of two blocks each, the first of which they share, have grown until one was
/// preempted.
class Victim : public DecodeFixture {
 protected:
  Victim() { preempt_in(5); }
  void preempt_in(int blocks, std::size_t grant = 0) {
    worker::NodeLimits limits = worker::small_limits();
    limits.headroom_tokens = 1;
    core_ = DecodeCore(limits, worker::small_pools(blocks), 100);
    steps = 0;
    forget();
    run(key(1), 60);
    run(key(2), 60);
    if (grant > 0) reserve(key(3), grant);
    const int before = counted(Countable::preempted);
    while (counted(Countable::preempted) == before) step();
    forget();
  }
  bool granted(const protocol::AttemptKey& k, bool prompt_ready = false) {
    forget();
    reserve(k, 5, 5, prompt_ready);
    for (const auto& each : told<protocol::Refused>()) EXPECT_EQ(each.reason, Reason::no_space);
    return !told<protocol::Granted>().empty();
  }
  /// Until the victim's blocks are computed again.
  void run_on() {
    for (int i = 0; i < 100 && plan.prefill.empty(); ++i) {
      if (!plan.empty()) end_step();
      begin_step();
    }
    ASSERT_FALSE(plan.prefill.empty());
    end_step();
  }
};

TEST_F(Victim, GetsTheBlocksThatAreLeftBeforeAnyReservation) {
  ASSERT_GT(core_.pools().available_blocks(0), 0);
  EXPECT_FALSE(granted(key(4)));
  EXPECT_EQ(core_.load().free_tokens, 0);
  run_on();
  EXPECT_TRUE(granted(key(4, 1, 2)));
  EXPECT_EQ(core_.load().free_tokens, core_.pools().available_blocks(0) * 16);
}

TEST_F(Victim, ThatWasCancelledHoldsNobodyUp) {
  say(protocol::Cancel{key(2)});
  EXPECT_TRUE(granted(key(4)));
}

/// Were it not so, this one's prompt could fill the cache that the granted one waits for, while the
/// victim that it waits for itself waits for the granted blocks.
TEST_F(Victim, GetsTheBlocksOfAGrantThatAComputedPromptTakesBack) {
  preempt_in(10, 80);
  begin_step();
  EXPECT_TRUE(plan.prefill.empty()) << "the grant has what the victim lacks";
  end_step();
  std::uint32_t leg = 1;
  forget();
  for (Duration waited{}; waited < 400ms && commands<handoff::CloseGrant>().empty();
       waited += 100ms) {
    EXPECT_FALSE(granted(key(4, 1, leg++), true));
    now += 100ms;
  }
  EXPECT_EQ(commands<handoff::CloseGrant>().size(), 1U);
  closed();
  begin_step();
  EXPECT_EQ(plan.prefill.size(), 1U);
  end_step();
  EXPECT_TRUE(granted(key(4, 1, leg), true));
}

/// Two requests of two blocks each grow in a pool of five: one is preempted.
class Preempted : public DecodeFixture {
 protected:
  Preempted() {
    worker::NodeLimits limits = worker::small_limits();
    limits.headroom_tokens = 1;
    core_ = DecodeCore(limits, worker::small_pools(5), 100);
    run(key(1), 40);
    run(key(2), 40);
    while (counted(Countable::preempted) == 0) step();
    while (plan.prefill.empty()) {
      if (!plan.empty()) end_step();
      begin_step();
    }
    forget();
  }
};

TEST_F(Preempted, AStepThatFailsWhileAVictimIsComputedAgainEndsTheVictim) {
  core_.step_done(Error(Reason::internal, "broken"), now);
  collect();
  std::vector<protocol::AttemptKey> ended;
  for (const auto& each : told<protocol::Finished>()) {
    EXPECT_EQ(each.finish, FinishReason::error);
    ended.push_back(each.key);
  }
  EXPECT_THAT(ended, testing::Contains(key(2)));
  say(protocol::Release{key(1)});
  say(protocol::Release{key(2)});
  expect_baseline();
}

}  // namespace
}  // namespace baton::decode_node
