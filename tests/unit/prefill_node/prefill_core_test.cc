#include "prefill_fixture.h"

namespace baton::prefill_node {
namespace {

TEST_F(PrefillFixture, APromptIsComputedOfferedAndCommitted) {
  prefill(key(1));
  target(key(1));
  EXPECT_THAT(commands<handoff::SetTarget>(), testing::IsEmpty());  // nothing to send yet
  step();
  ASSERT_EQ(commands<handoff::BeginSource>().size(), 1U);
  EXPECT_EQ(commands<handoff::BeginSource>()[0].length, 20);
  EXPECT_EQ(commands<handoff::SetTarget>().size(), 1U);
  ASSERT_EQ(commands<handoff::LayerReady>().size(), 2U);
  EXPECT_EQ(commands<handoff::LayerReady>()[1].layer, 1U);
  EXPECT_EQ(commands<handoff::LayerReady>()[1].positions, 20);
  ASSERT_EQ(told<protocol::Tokens>().size(), 1U);
  EXPECT_THAT(told<protocol::Tokens>()[0].ids, testing::ElementsAre(worker::sampled_id));
  EXPECT_EQ(told<protocol::Tokens>()[0].first_index, 0);
  EXPECT_EQ(commands<handoff::CommitSource>().size(), 1U);
}

TEST_F(PrefillFixture, ALongPromptIsOfferedChunkByChunk) {
  prefill(key(1), 50);
  step();
  EXPECT_EQ(commands<handoff::LayerReady>().back().positions, 32);
  EXPECT_THAT(told<protocol::Tokens>(), testing::IsEmpty());
  step();
  EXPECT_EQ(commands<handoff::LayerReady>().back().positions, 50);
  EXPECT_EQ(commands<handoff::ExtendSource>().size(), 1U);
  EXPECT_EQ(told<protocol::Tokens>().size(), 1U);
}

TEST_F(PrefillFixture, AnAcceptedHandoffFreesTheBlocksOnceNoSendIsOpen) {
  prefill(key(1));
  target(key(1));
  step();
  accept(key(1));
  ASSERT_EQ(told<protocol::HandoffEnded>().size(), 1U);
  EXPECT_TRUE(told<protocol::HandoffEnded>()[0].accepted);
  EXPECT_EQ(core_.pools().available_blocks(0), 6);  // a send may still read
  idle(source());
  EXPECT_EQ(core_.pools().available_blocks(0), 8);
  say(protocol::Release{key(1)});
  EXPECT_EQ(told<protocol::Gone>().size(), 1U);
  expect_baseline();
}

TEST_F(PrefillFixture, AFailedHandoffKeepsTheBlocksForAnotherTarget) {
  prefill(key(1));
  target(key(1));
  step();
  event(handoff::SourceFailed{source(), key(1), Reason::worker_lost, "lost", {}});
  EXPECT_FALSE(told<protocol::HandoffEnded>().back().accepted);
  EXPECT_EQ(core_.pools().available_blocks(0), 6);
  target(key(1, 1, 2));
  EXPECT_EQ(commands<handoff::SetTarget>().back().key, key(1, 1, 2));
}

TEST_F(PrefillFixture, ATokenThatEndsTheRequestIsFinishedWithoutAHandoff) {
  prefill(key(1));
  step(worker::end_id);
  ASSERT_EQ(told<protocol::Finished>().size(), 1U);
  EXPECT_EQ(told<protocol::Finished>()[0].finish, FinishReason::stop);
  EXPECT_EQ(told<protocol::Finished>()[0].tokens, 1);
  EXPECT_THAT(commands<handoff::CommitSource>(), testing::IsEmpty());
  EXPECT_EQ(commands<handoff::AbortSource>().size(), 1U);
  idle(source());
  say(protocol::Release{key(1)});
  expect_baseline();
}

TEST_F(PrefillFixture, ARequestForOneTokenBeginsNoSource) {
  prefill(key(1), 20, false);
  step();
  EXPECT_EQ(told<protocol::Finished>()[0].finish, FinishReason::length);
  EXPECT_TRUE(commands<handoff::BeginSource>().empty());
  say(protocol::Cancel{key(1)});
  expect_baseline();
}

TEST_F(PrefillFixture, AResumedRequestSamplesItsNextIndex) {
  protocol::Work resumed = work();
  resumed.generated_ids = {4, 4, 4};
  say(protocol::Prefill{key(1, 2, 2), resumed, 5000, true});
  step();
  EXPECT_EQ(told<protocol::Tokens>()[0].first_index, 3);
  EXPECT_EQ(commands<handoff::BeginSource>()[0].length, 23);
}

// ---- repeated and stale messages ----

TEST_F(PrefillFixture, ARepeatedPrefillGetsItsAnswersAgainAndIsComputedOnce) {
  prefill(key(1));
  prefill(key(1));
  step();
  EXPECT_EQ(told<protocol::Tokens>().size(), 1U);
  prefill(key(1));
  EXPECT_EQ(told<protocol::Tokens>().size(), 2U);
  begin_step();
  EXPECT_TRUE(plan.empty());
}

TEST_F(PrefillFixture, AHigherPrefillLegEndsTheLowerOne) {
  prefill(key(1));
  step();
  prefill(key(1, 2, 2));
  EXPECT_EQ(commands<handoff::AbortSource>().size(), 1U);
  idle(source());
  step();
  EXPECT_EQ(told<protocol::Tokens>().back().key, key(1, 2, 2));
}

TEST_F(PrefillFixture, LowerLegsChangeNothing) {
  prefill(key(1, 2, 2));
  prefill(key(1, 1, 1));
  target(key(1, 1, 1));
  target(key(1, 2, 1));
  step();
  EXPECT_TRUE(commands<handoff::SetTarget>().empty());
  EXPECT_EQ(told<protocol::Tokens>()[0].key, key(1, 2, 2));
  say(protocol::Cancel{key(1, 1, 1)});
  say(protocol::Release{key(1, 1, 1)});
  EXPECT_EQ(told<protocol::Gone>().size(), 2U);
  EXPECT_FALSE(core_.idle());
}

TEST_F(PrefillFixture, AnEndedAttemptIsAnsweredByItsTombstone) {
  prefill(key(1));
  say(protocol::Cancel{key(1)});
  forget();
  prefill(key(1));
  EXPECT_EQ(told<protocol::Gone>().size(), 1U);
  EXPECT_TRUE(core_.idle());
  pass(10s);  // twice the lease
  prefill(key(1));
  EXPECT_FALSE(core_.idle());
}

TEST_F(PrefillFixture, ATombstonesLegsNeverFall) {
  prefill(key(1, 3, 3));
  say(protocol::Cancel{key(1, 3, 3)});
  say(protocol::Cancel{key(1, 1, 1)});
  prefill(key(1, 2, 2));
  EXPECT_TRUE(core_.idle());
}

TEST_F(PrefillFixture, MessagesAboutNothingAreAnsweredGone) {
  target(key(5));
  say(protocol::Cancel{key(6)});
  say(protocol::Release{key(7)});
  EXPECT_EQ(told<protocol::Gone>().size(), 3U);
  expect_baseline();
}

TEST_F(PrefillFixture, ATargetForReleasedUnitsIsRefused) {
  prefill(key(1));
  target(key(1));
  step();
  accept(key(1));
  target(key(1));  // a repeated one gets the answer again
  EXPECT_EQ(told<protocol::HandoffEnded>().size(), 2U);
  target(key(1, 1, 2));
  ASSERT_EQ(told<protocol::Refused>().size(), 1U);
  EXPECT_EQ(told<protocol::Refused>()[0].reason, Reason::released);
  EXPECT_EQ(told<protocol::Refused>()[0].key, key(1, 1, 2));
}

TEST_F(PrefillFixture, ATargetThatMeetsAnAcceptanceOnItsWayIsRefused) {
  prefill(key(1));
  target(key(1));
  step();
  target(key(1, 1, 2));
  accept(key(1));  // of the first target
  ASSERT_EQ(told<protocol::Refused>().size(), 1U);
  EXPECT_EQ(told<protocol::Refused>()[0].key, key(1, 1, 2));
  EXPECT_EQ(told<protocol::Refused>()[0].reason, Reason::released);
}

// ---- admission ----

TEST_F(PrefillFixture, APromptLargerThanThePoolIsRefusedForGood) {  // COR-04
  prefill(key(1), 200);
  EXPECT_EQ(told<protocol::Refused>()[0].reason, Reason::prompt_exceeds_pool);
  EXPECT_EQ(info(Reason::prompt_exceeds_pool).retry, Retry::never);
  expect_baseline();
}

TEST_F(PrefillFixture, IdsOutsideTheVocabularyAreRefused) {
  protocol::Work bad = work();
  bad.prompt_ids[3] = 100;
  say(protocol::Prefill{key(1), bad, 5000, true});
  EXPECT_EQ(told<protocol::Refused>()[0].reason, Reason::invalid_request);
  expect_baseline();
}

TEST_F(PrefillFixture, MoreRequestsThanItMayHoldAreRefused) {
  for (std::uint64_t i = 1; i <= 9; ++i) prefill(key(i));
  ASSERT_EQ(told<protocol::Refused>().size(), 1U);
  EXPECT_EQ(told<protocol::Refused>()[0].reason, Reason::overloaded);
  EXPECT_GT(told<protocol::Refused>()[0].retry_after_ms, 0);
}

TEST_F(PrefillFixture, ABacklogOverItsLimitRefuses) {
  worker::NodeLimits limits = worker::small_limits();
  limits.backlog_tokens = 30;
  PrefillCore small(limits, worker::small_pools(8));
  for (std::uint64_t i = 1; i <= 3; ++i) {
    small.message(router, protocol::Prefill{key(i), work(), 5000, true}, now, now);
  }
  EXPECT_EQ(small.load().queued, 2);
  EXPECT_EQ(small.load().backlog_tokens, 40);
}

TEST_F(PrefillFixture, ADrainingNodeFinishesWhatItHasAndTakesNothingNew) {
  prefill(key(1));
  core_.drain();
  prefill(key(2));
  EXPECT_EQ(told<protocol::Refused>()[0].reason, Reason::draining);
  prefill(key(1));  // a repeated one is not new
  step();
  EXPECT_EQ(told<protocol::Tokens>().size(), 1U);
}

TEST_F(PrefillFixture, PromptsThatWaitForTargetsHoldOthersBack) {
  prefill(key(1), 60);
  prefill(key(2), 60);
  step();
  step();
  step();
  prefill(key(3), 60);
  begin_step();
  EXPECT_TRUE(plan.empty());  // the pool holds two of them
  say(protocol::Cancel{key(1)});
  idle(commands<handoff::BeginSource>()[0].source);
  begin_step();
  EXPECT_FALSE(plan.empty());
}

TEST_F(PrefillFixture, AFailedComputationIsFinishedWithItsReason) {
  prefill(key(1));
  failing_step(Reason::internal);
  ASSERT_EQ(told<protocol::Finished>().size(), 1U);
  EXPECT_EQ(told<protocol::Finished>()[0].finish, FinishReason::error);
  EXPECT_EQ(told<protocol::Finished>()[0].reason, Reason::internal);
  say(protocol::Release{key(1)});
  expect_baseline();
}

}  // namespace
}  // namespace baton::prefill_node
