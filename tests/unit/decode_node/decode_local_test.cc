// Prompts that a decode node computes itself, since little of them is not in its prefix cache.
#include "decode_fixture.h"

namespace baton::decode_node {
namespace {

class DecodeLocal : public DecodeFixture {
 protected:
  DecodeLocal() { core_ = DecodeCore(limits(), worker::small_pools(12), 100); }
  static worker::NodeLimits limits() {
    worker::NodeLimits out = worker::small_limits();
    out.prefill_suffix_tokens = 24;
    return out;
  }
  void ask_for(const protocol::AttemptKey& k) override { ask(k, 20); }
  void ask(const protocol::AttemptKey& k, std::size_t prompt, std::int32_t max_tokens = 5,
           bool may_compute = true) {
    say(protocol::Reserve{k, work(prompt, max_tokens), 5000, false, may_compute});
  }
  std::int64_t run_to_the_end() {
    std::int64_t rows = 0;
    while (told<protocol::Finished>().empty()) {
      begin_step();
      EXPECT_FALSE(plan.empty());
      if (plan.empty()) break;
      for (const engine::PrefillRows& each : plan.prefill) rows += each.count;
      now += 2ms;
      end_step();
    }
    return rows;
  }
};

using testing::ElementsAre;
using testing::FieldsAre;
using testing::IsEmpty;

TEST_F(DecodeLocal, AShortPromptIsOwnedAtOnceAndComputedWithoutAHandoff) {
  ask(key(1), 20, 3);
  EXPECT_EQ(told<protocol::Owned>()[0].next_index, 0);
  EXPECT_THAT(told<protocol::Granted>(), IsEmpty());
  now += 4ms;
  EXPECT_EQ(run_to_the_end(), 20);
  EXPECT_THAT(told_ids(), ElementsAre(7, 7, 7));
  EXPECT_EQ(told<protocol::Tokens>()[0].times.queue, 4ms);
  EXPECT_EQ(told<protocol::Tokens>()[0].times.prefill, 2ms);
  const auto finished = told<protocol::Finished>()[0];
  EXPECT_EQ(finished.tokens, 3);
  EXPECT_EQ(finished.facts.prompt_rows, 20);
  EXPECT_EQ(finished.facts.recomputed_rows, 0);
  EXPECT_EQ(finished.facts.cache_before, 20);
  EXPECT_EQ(finished.times.first_decode, 2ms);
  EXPECT_EQ(finished.times.decode, 2ms);
  EXPECT_THAT(to_driver, IsEmpty());
  say(protocol::Release{key(1)});
  expect_baseline();
}

TEST_F(DecodeLocal, PFX04ALongPromptIsGrantedUnlessMostOfItIsCached) {
  ask(key(1), 25);
  EXPECT_EQ(told<protocol::Granted>().size(), 1U);
  verify(key(1));
  closed();
  forget();
  ask(key(2), 25);  // 16 are cached, 9 are left
  EXPECT_EQ(told<protocol::Owned>().size(), 1U);
  EXPECT_EQ(lookups.back().hit_tokens, 16);
  begin_step();
  ASSERT_EQ(plan.prefill.size(), 1U);
  EXPECT_EQ(plan.prefill[0].first_position, 16);
  EXPECT_EQ(plan.decode.size(), 1U) << "beside the row that decodes";
  end_step();
  EXPECT_EQ(told<protocol::Tokens>().back().key, key(2));  // prompts end behind the decode rows
  EXPECT_EQ(told<protocol::Tokens>().back().cached_tokens, 16);
}

TEST_F(DecodeLocal, NothingIsComputedThatAPrefillNodeHas) {
  ask(key(1), 20, 5, false);
  EXPECT_EQ(told<protocol::Granted>().size(), 1U);
  EXPECT_THAT(told<protocol::Owned>(), IsEmpty());
}

TEST_F(DecodeLocal, WhatTheEngineRefusesIsRefusedWithItsReason) {
  protocol::Work wrong = work(20, 5);
  wrong.sampling.top_p = 3;
  say(protocol::Reserve{key(1), wrong, 5000, false, true});
  ASSERT_EQ(told<protocol::Refused>().size(), 1U);
  EXPECT_EQ(told<protocol::Refused>()[0].reason, Reason::invalid_request);
  expect_baseline();
}

TEST_F(DecodeLocal, WaitsInTheQueueAndCountsAsBacklogUntilItIsComputed) {
  ask(key(1), 20);
  EXPECT_EQ(core_.load().queued, 1);
  EXPECT_EQ(core_.load().running, 0);
  EXPECT_EQ(core_.load().backlog_tokens, 20);
  begin_step();
  EXPECT_EQ(core_.load().queued, 0);
  EXPECT_EQ(core_.load().running, 1);
  end_step();
  EXPECT_EQ(core_.load().backlog_tokens, 0);
}

TEST_F(DecodeLocal, MET01TellsWhereItsPromptCameFrom) {
  ask(key(1), 20);
  begin_step();
  end_step();
  ask(key(2), 23);
  begin_step();
  end_step();
  EXPECT_THAT(prompts, ElementsAre(FieldsAre(20, 0, 0), FieldsAre(7, 16, 0)));
}

TEST_F(DecodeLocal, TheFirstTokenMayBeTheLast) {
  ask(key(1), 20, 1);
  run_to_the_end();
  EXPECT_EQ(told<protocol::Finished>()[0].finish, FinishReason::length);
  ask(key(2), 20, 5);
  begin_step();
  end_step(worker::end_id);
  EXPECT_EQ(told<protocol::Finished>()[1].finish, FinishReason::stop);
  EXPECT_EQ(told<protocol::Finished>()[1].tokens, 1);
}

TEST_F(DecodeLocal, APromptThatDoesNotFitNowIsRefusedAndKeepsNothing) {
  ask(key(1), 24, 5);
  reserve(key(2), 150);  // the ten blocks that are left
  forget();
  ask(key(3), 20);
  EXPECT_EQ(told<protocol::Refused>()[0].reason, Reason::no_space);
  EXPECT_EQ(core_.pools().available_blocks(0), 0);
}

TEST_F(DecodeLocal, AResumedRequestComputesItsGeneratedIdsToo) {
  protocol::Work resumed = work(15, 6);
  resumed.generated_ids = {4, 4};
  say(protocol::Reserve{key(1, 2, 2), resumed, 5000, false, true});
  EXPECT_EQ(told<protocol::Owned>()[0].next_index, 2);
  EXPECT_EQ(run_to_the_end(), 17);
  EXPECT_EQ(told<protocol::Tokens>()[0].first_index, 2);
  EXPECT_EQ(told<protocol::Finished>()[0].tokens, 6);
}

TEST_F(DecodeLocal, ARepeatedReservationIsAnsweredOwnedAndResumeBringsTheTokens) {
  ask(key(1), 20);
  ask(key(1), 20);
  EXPECT_EQ(told<protocol::Owned>().size(), 2U);
  begin_step();
  end_step();
  forget();
  connect(router);
  EXPECT_EQ(told<protocol::Owned>().size(), 1U);
  say(protocol::Resume{key(1), 0});
  EXPECT_THAT(told_ids(), ElementsAre(7));
}

TEST_F(DecodeLocal, EveryEndFreesItWhileItWaitsAndWhileItIsComputed) {
  for (const bool in_step : {false, true}) {
    for (const worker::EndBy by : worker::every_end) {
      core_ = DecodeCore(limits(), worker::small_pools(12), 100);
      forget();
      connect(router);
      ask(key(1), 20);
      if (in_step) begin_step();
      end(by);
      if (in_step) end_step();
      expect_baseline();
    }
  }
}

TEST_F(DecodeLocal, APreemptedOneIsComputedAgain) {
  core_ = DecodeCore(limits(), worker::small_pools(5), 100);
  ask(key(1), 20, 40);
  ask(key(2), 20, 40);
  for (int i = 0; i < 300 && told<protocol::Finished>().size() < 2; ++i) step();
  ASSERT_EQ(told<protocol::Finished>().size(), 2U);
  EXPECT_GT(counted(Countable::preempted), 0);
  for (const auto& each : told<protocol::Finished>()) EXPECT_EQ(each.tokens, 40);
}

}  // namespace
}  // namespace baton::decode_node
