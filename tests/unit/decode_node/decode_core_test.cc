#include "decode_fixture.h"

namespace baton::decode_node {
namespace {

TEST_F(DecodeFixture, AReservationOpensAGrantForThePromptAndHeadroom) {
  reserve(key(1));
  ASSERT_EQ(told<protocol::Granted>().size(), 1U);
  const protocol::Grant grant = told<protocol::Granted>()[0].grant;
  EXPECT_EQ(grant.length, 20);
  EXPECT_EQ(grant.groups[0].slots[0].count, 2U);
  EXPECT_EQ(commands<handoff::OpenGrant>()[0].grant, grant);
  EXPECT_EQ(core_.load().queued, 1);
}

TEST_F(DecodeFixture, NothingIsDecodedBeforeTheCommitIsVerified) {  // P2
  reserve(key(1));
  begin_step();
  EXPECT_TRUE(plan.empty());
}

TEST_F(DecodeFixture, AVerifiedCommitDecodesFromThePromptsEnd) {
  reserve(key(1));
  verify(key(1));
  EXPECT_EQ(told_pair<protocol::Accepted>().size(), 1U);
  EXPECT_EQ(told<protocol::Owned>()[0].next_index, 0);
  EXPECT_THAT(told_ids(), testing::ElementsAre(worker::sampled_id));
  EXPECT_EQ(commands<handoff::CloseGrant>().size(), 1U);
  begin_step();
  ASSERT_EQ(plan.decode.size(), 1U);
  EXPECT_EQ(plan.decode[0].position, 20);
  EXPECT_TRUE(plan.prefill.empty());
  layer(0);
  layer(1);
  end_step();
  EXPECT_EQ(told<protocol::Tokens>().back().first_index, 1);
}

TEST_F(DecodeFixture, TheLastTokenFinishesAndFreesTheBlocks) {
  run(key(1), 3);
  step();
  step();
  ASSERT_EQ(told<protocol::Finished>().size(), 1U);
  const auto finished = told<protocol::Finished>()[0];
  EXPECT_EQ(finished.finish, FinishReason::length);
  EXPECT_EQ(finished.tokens, 3);
  EXPECT_EQ(finished.facts.first_step_rows, 1);
  EXPECT_EQ(finished.facts.cache_before, 20);
  EXPECT_EQ(finished.facts.cache_after, 21);
  EXPECT_EQ(core_.pools().available_blocks(0), 8);
  EXPECT_FALSE(core_.idle());  // the ids are kept until Release
  say(protocol::Release{key(1)});
  expect_baseline();
}

TEST_F(DecodeFixture, AStopIdFinishesWithStop) {
  run(key(1));
  step(worker::end_id);
  EXPECT_EQ(told<protocol::Finished>()[0].finish, FinishReason::stop);
}

TEST_F(DecodeFixture, ACommitOfAnotherLengthIsRefusedAndStartsNothing) {
  reserve(key(1));
  protocol::Commit commit;
  commit.key = key(1);
  commit.grant = told<protocol::Granted>()[0].grant.id;
  commit.length = 19;
  commit.tokens.ids = {worker::sampled_id};
  event(handoff::CommitVerified{handoff::LinkId(1), commit});
  EXPECT_EQ(told_pair<protocol::CommitRefused>()[0].reason, Reason::length_mismatch);
  begin_step();
  EXPECT_TRUE(plan.empty());
  EXPECT_TRUE(told<protocol::Owned>().empty());
}

TEST_F(DecodeFixture, ACommitForAnEndedRequestIsRefused) {
  reserve(key(1));
  say(protocol::Cancel{key(1)});
  verify(key(1));
  EXPECT_EQ(told_pair<protocol::CommitRefused>()[0].reason, Reason::released);
  closed();
  expect_baseline();
}

TEST_F(DecodeFixture, AResumedRequestCountsItsTokensOn) {
  protocol::Work resumed = work(20, 6);
  resumed.generated_ids = {4, 4};
  say(protocol::Reserve{key(1, 2, 2), resumed, 5000});
  verify(key(1, 2, 2));
  EXPECT_EQ(told<protocol::Owned>()[0].next_index, 2);
  EXPECT_EQ(told<protocol::Tokens>()[0].first_index, 2);
  begin_step();
  EXPECT_EQ(plan.decode[0].position, 22);
}

// ---- repeated and stale messages ----

TEST_F(DecodeFixture, ARepeatedReservationGetsTheSameGrant) {
  reserve(key(1));
  reserve(key(1));
  ASSERT_EQ(told<protocol::Granted>().size(), 2U);
  EXPECT_EQ(told<protocol::Granted>()[0].grant, told<protocol::Granted>()[1].grant);
  EXPECT_EQ(commands<handoff::OpenGrant>().size(), 1U);
}

TEST_F(DecodeFixture, AReservationOfAnOwnedRequestIsAnsweredOwned) {
  run(key(1));
  reserve(key(1, 2, 1));
  EXPECT_EQ(told<protocol::Owned>().size(), 2U);
  EXPECT_EQ(told<protocol::Granted>().size(), 1U);
}

TEST_F(DecodeFixture, AHigherDecodeLegEndsTheGrant) {
  reserve(key(1));
  reserve(key(1, 1, 2));
  EXPECT_EQ(commands<handoff::CloseGrant>().size(), 1U);
  EXPECT_EQ(told<protocol::Granted>().back().key, key(1, 1, 2));
  EXPECT_NE(told<protocol::Granted>()[0].grant.id, told<protocol::Granted>()[1].grant.id);
  verify(key(1));  // the old grant's commit
  EXPECT_EQ(told_pair<protocol::CommitRefused>().size(), 1U);
  verify(key(1, 1, 2));
  EXPECT_EQ(told_pair<protocol::Accepted>().size(), 1U);
}

TEST_F(DecodeFixture, BlocksOfAnEndedGrantAreNotReusedBeforeItIsClosed) {  // quarantine
  reserve(key(1), 60);
  say(protocol::Cancel{key(1)});
  EXPECT_EQ(core_.pools().counts(0).quarantined, 5);
  reserve(key(2), 60);
  EXPECT_EQ(told<protocol::Refused>()[0].reason, Reason::no_space);
  closed();
  reserve(key(2, 1, 2), 60);
  EXPECT_EQ(told<protocol::Granted>().size(), 2U);
}

TEST_F(DecodeFixture, LowerLegsChangeNothing) {
  reserve(key(1, 2, 2));
  reserve(key(1, 1, 1));
  say(protocol::Cancel{key(1, 1, 1)});
  say(protocol::Release{key(1, 1, 1)});
  EXPECT_EQ(told<protocol::Gone>().size(), 2U);
  EXPECT_EQ(told<protocol::Granted>().size(), 1U);
  EXPECT_FALSE(core_.idle());
}

TEST_F(DecodeFixture, AnEndedAttemptIsAnsweredByItsTombstone) {
  reserve(key(1));
  say(protocol::Cancel{key(1)});
  closed();
  forget();
  reserve(key(1));
  EXPECT_EQ(told<protocol::Gone>().size(), 1U);
  EXPECT_TRUE(core_.idle());
}

TEST_F(DecodeFixture, ResumeSendsFromTheIndexAskedFor) {
  run(key(1));
  step();
  step();
  forget();
  say(protocol::Resume{key(1), 1});
  EXPECT_EQ(told<protocol::Tokens>()[0].first_index, 1);
  EXPECT_EQ(told_ids().size(), 2U);
  say(protocol::Resume{key(1), 50});  // beyond the end: nothing to send, no harm
  EXPECT_TRUE(told<protocol::Tokens>()[1].ids.empty());
  say(protocol::Resume{key(1), -3});
  EXPECT_EQ(told<protocol::Tokens>()[2].first_index, 0);
}

TEST_F(DecodeFixture, ResumeOfAFinishedRequestBringsItsEndToo) {
  run(key(1), 2);
  step();
  forget();
  say(protocol::Resume{key(1), 0});
  EXPECT_EQ(told_ids().size(), 2U);
  EXPECT_EQ(told<protocol::Finished>().size(), 1U);
}

TEST_F(DecodeFixture, ResumeOfNothingIsGone) {
  say(protocol::Resume{key(1), 0});
  EXPECT_EQ(told<protocol::Gone>().size(), 1U);
}

TEST_F(DecodeFixture, AReturningRouterIsToldWhoOwnsWhat) {
  reserve(key(1));
  run(key(2), 2);
  step();
  forget();
  connect(router);
  EXPECT_EQ(told<protocol::Granted>()[0].key, key(1));
  EXPECT_EQ(told<protocol::Owned>()[0].key, key(2));
  EXPECT_EQ(told_ids().size(), 2U);  // before the end, that nothing is missing there
  EXPECT_EQ(told<protocol::Finished>().size(), 1U);
  EXPECT_TRUE(std::holds_alternative<protocol::Finished>(to_owner.back()));
}

TEST_F(DecodeFixture, AReturningRouterIsToldNothingOfOthers) {
  const handoff::OwnerRef other{NodeId("r2"), Epoch(5)};
  connect(router);
  reserve(key(1));
  forget();
  connect(other);
  EXPECT_TRUE(to_owner.empty());
}

TEST_F(DecodeFixture, ResumeOfAnotherAttemptOrOfAGrantSendsNothing) {
  run(key(1, 2, 2));
  reserve(key(2));
  forget();
  say(protocol::Resume{key(1, 1, 1), 0});
  say(protocol::Resume{key(2), 0});
  EXPECT_TRUE(to_owner.empty());
}

// ---- admission and pressure ----

TEST_F(DecodeFixture, APromptLargerThanThePoolIsRefusedForGood) {
  reserve(key(1), 128);  // and one token more
  EXPECT_EQ(told<protocol::Refused>()[0].reason, Reason::prompt_exceeds_pool);
  expect_baseline();
}

TEST_F(DecodeFixture, AFullPoolRefusesWithAHint) {  // HNG-28
  reserve(key(1), 60);
  reserve(key(2), 60);
  EXPECT_EQ(told<protocol::Refused>()[0].reason, Reason::no_space);
  EXPECT_GT(told<protocol::Refused>()[0].retry_after_ms, 0);
  EXPECT_EQ(counted(Countable::request_refused, Reason::no_space), 1);
  EXPECT_EQ(core_.load().queued, 1);
}

TEST_F(DecodeFixture, HeadroomIsGivenUpBeforeAReservationIsRefused) {
  reserve(key(1), 60, 20);  // 60 + 16: five blocks
  reserve(key(2), 40, 20);  // 40 + 16 would be four, 41 are three
  EXPECT_EQ(told<protocol::Granted>().size(), 2U);
  EXPECT_EQ(core_.pools().available_blocks(0), 0);
}

TEST_F(DecodeFixture, MoreRequestsThanItMayHoldAreRefused) {
  DecodeCore roomy(worker::small_limits(), worker::small_pools(64), 100);
  for (std::uint64_t i = 1; i <= 9; ++i) {
    roomy.message(router, protocol::Reserve{key(i), work(), 5000}, now, now);
  }
  int refused = 0;
  for (const auto& effect : roomy.take_effects()) {
    const auto* owner = std::get_if<worker::ToOwner>(&effect);
    if (owner == nullptr) continue;
    const auto* each = std::get_if<protocol::Refused>(&owner->message);
    if (each == nullptr) continue;
    ++refused;
    EXPECT_EQ(each->reason, Reason::overloaded);
  }
  EXPECT_EQ(refused, 1);
}

TEST_F(DecodeFixture, ADrainingNodeTakesNothingNewAndFinishesWhatItHas) {
  run(key(1), 3);
  core_.drain();
  reserve(key(2));
  EXPECT_EQ(told<protocol::Refused>()[0].reason, Reason::draining);
  step();
  step();
  EXPECT_EQ(told<protocol::Finished>().size(), 1U);
}

/// Two requests of two blocks each grow in a pool of five.
class SmallPool : public DecodeFixture {
 protected:
  SmallPool() { core_ = DecodeCore(limits(), worker::small_pools(5), 100); }
  static worker::NodeLimits limits() {
    worker::NodeLimits out = worker::small_limits();
    out.headroom_tokens = 1;
    return out;
  }
};

TEST_F(SmallPool, APreemptedRequestIsComputedAgainHereAndAsksForNoSecondHandoff) {  // HNG-18
  run(key(1), 40);
  run(key(2), 40);
  for (int i = 0; i < 200 && told<protocol::Finished>().size() < 2; ++i) step();
  ASSERT_EQ(told<protocol::Finished>().size(), 2U);
  EXPECT_GT(counted(Countable::preempted), 0);
  EXPECT_GT(told<protocol::Finished>()[1].facts.recomputed_rows, 0);
  EXPECT_EQ(commands<handoff::OpenGrant>().size(), 2U);
  for (const auto& finished : told<protocol::Finished>()) EXPECT_EQ(finished.tokens, 40);
  std::map<RequestId, std::int32_t> next;
  for (const auto& tokens : told<protocol::Tokens>()) {
    EXPECT_EQ(tokens.first_index, next[tokens.key.request]);
    next[tokens.key.request] += static_cast<std::int32_t>(tokens.ids.size());
  }
}

TEST_F(SmallPool, ACancelledVictimLeavesNothing) {  // HNG-11, COR-15
  run(key(1), 40);
  run(key(2), 40);
  while (counted(Countable::preempted) == 0) step();
  say(protocol::Cancel{key(2)});
  say(protocol::Cancel{key(1)});
  expect_baseline();
}

TEST_F(SmallPool, ALoneRequestThatCannotGrowEndsWithAReason) {
  run(key(1), 900);
  for (int i = 0; i < 200 && told<protocol::Finished>().empty(); ++i) step();
  ASSERT_EQ(told<protocol::Finished>().size(), 1U);
  EXPECT_EQ(told<protocol::Finished>()[0].finish, FinishReason::error);
  EXPECT_EQ(told<protocol::Finished>()[0].reason, Reason::cannot_grow);
}

}  // namespace
}  // namespace baton::decode_node
