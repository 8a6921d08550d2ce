// Ends of a request on a decode node, from every state: afterwards nothing is held (HNG-09).
#include "decode_fixture.h"

namespace baton::decode_node {
namespace {

enum class At : std::uint8_t { granted, accepted, computing, running, finished };

class DecodeEnd : public DecodeFixture,
                  public testing::WithParamInterface<std::tuple<At, worker::EndBy>> {
 protected:
  void reach(At state) {
    reserve(key(1), 20, 3);
    if (state == At::granted) return;
    verify(key(1));
    if (state == At::accepted) return;
    closed();
    if (state == At::computing) {
      begin_step();
      layer(0);
      return;
    }
    step();
    if (state == At::finished) step();
  }
};

TEST_P(DecodeEnd, GivesEverythingBack) {
  const auto [state, by] = GetParam();
  connect(router);
  reach(state);
  const bool was_open = state == At::granted || state == At::accepted;
  end(by);
  EXPECT_TRUE(core_.idle());
  if (was_open) {
    EXPECT_GT(core_.pools().counts(0).quarantined, 0);
  }
  if (state == At::computing) {
    layer(1);
    const std::size_t before = told<protocol::Tokens>().size();
    end_step();
    EXPECT_EQ(told<protocol::Tokens>().size(), before);
  }
  closed();
  expect_baseline();
  closed();  // a second time does nothing
  expect_baseline();
}

INSTANTIATE_TEST_SUITE_P(EveryState, DecodeEnd,
                         testing::Combine(testing::Values(At::granted, At::accepted, At::computing,
                                                          At::running, At::finished),
                                          testing::ValuesIn(worker::every_end)));

TEST_F(DecodeFixture, LeasesRunOutWhileNothingIsComputed) {  // HNG-04
  for (std::uint64_t i = 1; i <= 3; ++i) reserve(key(i));
  pass(5s);
  EXPECT_EQ(counted(Countable::lease_expired), 3);
  EXPECT_EQ(told<protocol::Gone>().size(), 3U);
  closed();
  expect_baseline();
}

TEST_F(DecodeFixture, AFailedStepFinishesItsRowsAndNobodyElse) {
  run(key(1));
  reserve(key(2));
  failing_step(Reason::internal);
  ASSERT_EQ(told<protocol::Finished>().size(), 1U);
  EXPECT_EQ(told<protocol::Finished>()[0].finish, FinishReason::error);
  EXPECT_EQ(told<protocol::Finished>()[0].tokens, 1);
  verify(key(2));
  step();
  EXPECT_EQ(told<protocol::Tokens>().back().key, key(2));
}

TEST_F(DecodeFixture, ARowWithUnusableLogitsBringsNoToken) {  // COR-17
  run(key(1));
  begin_step();
  engine::StepEvents events;
  events.shape = plan.shape;
  events.took = 2ms;
  core_.table().find(plan.decode[0].sequence)->advance(1, 1, core_.pools());
  events.failed.push_back({plan.decode[0].sequence, Error(Reason::internal, "not a number")});
  core_.step_done(events, now);
  collect();
  EXPECT_EQ(told_ids().size(), 1U);
  EXPECT_EQ(told<protocol::Finished>()[0].message, "not a number");
  say(protocol::Release{key(1)});
  expect_baseline();
}

TEST_F(DecodeFixture, ACancelTouchesNoOtherRequestOfTheStep) {  // HNG-23
  run(key(1));
  run(key(2));
  begin_step();
  ASSERT_EQ(plan.decode.size(), 2U);
  layer(0);
  say(protocol::Cancel{key(1)});
  EXPECT_TRUE(core_.cancelled(plan.decode[0].sequence));
  EXPECT_FALSE(core_.cancelled(plan.decode[1].sequence));
  layer(1);
  forget();
  end_step();
  ASSERT_EQ(told<protocol::Tokens>().size(), 1U);
  EXPECT_EQ(told<protocol::Tokens>()[0].key, key(2));
}

TEST_F(DecodeFixture, ANewLifeOfARouterEndsOnlyWhatItsOldLifeOwned) {
  const handoff::OwnerRef other{NodeId("r2"), Epoch(5)};
  connect(router);
  connect(other);
  reserve(key(1));
  say(other, protocol::Reserve{key(2), work(), 5000});
  connect({NodeId("r"), Epoch(2)});
  EXPECT_TRUE(core_.inventory(router).empty());
  EXPECT_THAT(core_.inventory(other), testing::ElementsAre(key(2)));
}

TEST_F(DecodeFixture, AnEarlierLifeOfARouterHasNothingToSay) {
  connect(router);
  connect({NodeId("r"), Epoch(2)});
  forget();
  reserve(key(1));
  EXPECT_TRUE(to_owner.empty());
  expect_baseline();
}

TEST_F(DecodeFixture, AHeartbeatSaysHowLongItHolds) {
  connect(router);
  reserve(key(1));
  say(protocol::Heartbeat{20'000});
  pass(19s);
  EXPECT_FALSE(core_.idle());
  pass(1s);
  EXPECT_EQ(counted(Countable::lease_expired), 1);
  EXPECT_TRUE(core_.idle());
}

TEST_F(DecodeFixture, WhatTheOwnerDoesNotKnowIsFreedAndCounted) {
  run(key(1));
  say(protocol::Unknown{{key(1)}});
  EXPECT_EQ(counted(Countable::orphan_freed), 1);
  EXPECT_TRUE(core_.idle());
}

TEST_F(DecodeFixture, UnknownOfAStrangerOrOfAnotherAttemptFreesNothing) {
  const handoff::OwnerRef other{NodeId("r2"), Epoch(5)};
  connect(router);
  connect(other);
  run(key(1, 2, 2));
  say(other, protocol::Unknown{{key(1, 2, 2)}});
  say(protocol::Unknown{{key(1, 1, 1)}});
  EXPECT_EQ(counted(Countable::orphan_freed), 0);
  EXPECT_THAT(core_.inventory(router), testing::ElementsAre(key(1, 2, 2)));
}

TEST_F(DecodeFixture, ATombstoneIsKeptForTwiceTheLease) {
  reserve(key(1));
  say(protocol::Cancel{key(1)});
  closed();
  pass(9'999ms);
  forget();
  reserve(key(1));
  EXPECT_EQ(told<protocol::Gone>().size(), 1U);
  EXPECT_TRUE(core_.idle());
  pass(1ms);
  reserve(key(1));
  EXPECT_EQ(told<protocol::Granted>().size(), 1U);
}

TEST_F(DecodeFixture, ACancelOfAnEarlierPrefillLegEndsTheWholeAttempt) {
  reserve(key(1, 3, 1));
  say(protocol::Cancel{key(1, 2, 1)});
  closed();
  forget();
  reserve(key(1, 3, 1));
  ASSERT_EQ(told<protocol::Gone>().size(), 1U);
  EXPECT_EQ(told<protocol::Gone>()[0].key, key(1, 3, 1));
}

TEST_F(DecodeFixture, EachEndIsCountedOnceAsWhatItIs) {
  run(key(1), 2);
  step();
  say(protocol::Cancel{key(1)});  // it had finished
  EXPECT_EQ(counted(Countable::request_finished), 1);
  EXPECT_EQ(counted(Countable::request_cancelled), 0);
  run(key(2));
  say(protocol::Cancel{key(2)});
  say(protocol::Cancel{key(2)});
  EXPECT_EQ(counted(Countable::request_cancelled), 1);
  run(key(3));
  failing_step(Reason::internal);
  EXPECT_EQ(counted(Countable::request_failed, Reason::internal), 1);
  EXPECT_EQ(counted(Countable::request_finished), 1);
}

TEST_F(DecodeFixture, HandoffsAreCountedByHowTheyEnd) {
  run(key(1));
  EXPECT_EQ(counted(Countable::handoff_accepted), 1);
  reserve(key(2));
  protocol::Commit commit;
  commit.key = key(2);
  commit.grant = told<protocol::Granted>().back().grant.id;
  commit.length = 19;
  commit.tokens.ids = {worker::sampled_id};
  event(handoff::CommitVerified{handoff::LinkId(1), commit});
  EXPECT_EQ(counted(Countable::handoff_failed, Reason::length_mismatch), 1);
  EXPECT_EQ(counted(Countable::handoff_accepted), 1);
}

TEST_F(DecodeFixture, TheSameLifeOnANewConnectionEndsNothing) {
  connect(router);
  reserve(key(1));
  connect(router);
  EXPECT_FALSE(core_.idle());
}

}  // namespace
}  // namespace baton::decode_node
