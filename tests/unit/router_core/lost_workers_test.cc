// What the table does when workers go, come back, or come back as somebody else.
#include "table_fixture.h"

namespace baton::router {
namespace {

using LostWorkers = OneRequest;

TEST_F(LostWorkers, ALostDecodeWorkerRaisesTheDecodeLegOnly) {
  up("d1");
  say("d0", protocol::Granted{key, grant()});
  down("d0");
  EXPECT_EQ(last<protocol::Reserve>("d1").key.attempt, (Attempt{1, 2}));
  EXPECT_EQ(count<protocol::Prefill>("p0"), 1U);
  say("d1", protocol::Granted{{id, {1, 2}}, grant()});
  EXPECT_EQ(last<protocol::Target>("p0").node, NodeId("d1"));
}

TEST_F(LostWorkers, DecodeWorkersThatHadNoTargetMayBeLostAnyNumberOfTimes) {
  std::uint32_t leg = 1;
  for (const char* next : {"d1", "d2", "d3", "d4"}) {
    const std::string lost = node_of<protocol::Reserve>(id);
    up(next);
    down(lost);
    EXPECT_EQ(last<protocol::Reserve>(next).key.attempt, (Attempt{1, ++leg}));
  }
  EXPECT_EQ(attempts.size(), 4U);
  say("d4", protocol::Granted{{id, {1, leg}}, grant()});
  EXPECT_EQ(last<protocol::Target>("p0").node, NodeId("d4"));
}

TEST_F(LostWorkers, DecodeWorkersThatHadATargetAreCounted) {
  std::uint32_t leg = 1;
  for (const char* next : {"d1", "d2", "d3"}) {
    const std::string holder = node_of<protocol::Reserve>(id);
    say(holder, protocol::Granted{{id, {1, leg++}}, grant()});
    up(next);
    down(holder);
  }
  EXPECT_EQ(failure(id), Reason::worker_lost);
}

TEST_F(LostWorkers, ALostPrefillWorkerIsReplaced) {
  up("p1");
  down("p0");
  EXPECT_EQ(last<protocol::Prefill>("p1").key.attempt, (Attempt{2, 2}));
}

TEST_F(LostWorkers, ALostDecodeWorkerContinuesElsewhereFromTheNextToken) {
  up("d1");
  decoding(id);
  say("d0", tokens(key, 1, {21, 22}));
  down("d0");
  EXPECT_EQ(node_of<protocol::Reserve>(id), "d1");
  EXPECT_THAT(last<protocol::Prefill>("p0").work.generated_ids, testing::ElementsAre(20, 21, 22));
  const protocol::AttemptKey second{id, {2, 2}};
  say("p0", tokens(second, 3, {23}));
  EXPECT_THAT(delivered(id), testing::ElementsAre(20, 21, 22, 23));
}

TEST_F(LostWorkers, TokensThatNobodyHadSeenAreNotMixedIntoANewAttempt) {
  up("d1");
  decoding(id);
  say("d0", tokens(key, 2, {66}));  // early, and its attempt ends
  down("d0");
  const protocol::AttemptKey second{id, {2, 2}};
  say("p0", tokens(second, 1, {21}));
  EXPECT_THAT(delivered(id), testing::ElementsAre(20, 21));
}

TEST_F(LostWorkers, APrefillWorkerLostAfterOwnedChangesNothing) {
  decoding(id);
  down("p0");
  EXPECT_TRUE(attempts.empty());
  say("d0", tokens(key, 1, {21}));
  EXPECT_THAT(delivered(id), testing::ElementsAre(20, 21));
}

TEST_F(LostWorkers, NobodyWaitsForTheFiguresOfAPrefillWorkerThatWasLostBeforeOwned) {  // HNG-21
  say("d0", protocol::Granted{key, grant()});
  say("p0", tokens(key, 0, {20}));
  down("p0");
  say("d0", protocol::Owned{key, 0});
  say("d0", finished(key, 1));
  EXPECT_EQ(ends.at(id).finish, FinishReason::length);
}

TEST_F(LostWorkers, ALoneWorkerThatComesBackIsToldAgainWhatItMayHaveMissed) {
  say("d0", protocol::Granted{key, grant()});
  down("p0");
  EXPECT_TRUE(attempts.empty());
  up("p0");
  EXPECT_EQ(count<protocol::Prefill>("p0"), 2U);
  EXPECT_EQ(count<protocol::Target>("p0"), 2U);
  EXPECT_TRUE(attempts.empty());
}

TEST_F(LostWorkers, AReturningDecodeWorkerIsAskedForTheNextTokens) {
  decoding(id);
  down("d0");
  up("d0");
  EXPECT_EQ(last<protocol::Resume>("d0").next_index, 1);
}

TEST_F(LostWorkers, AnUnansweredReservationIsRepeatedOnANewConnection) {
  down("d0");
  up("d0");
  EXPECT_EQ(count<protocol::Reserve>("d0"), 2U);
  EXPECT_EQ(last<protocol::Reserve>("d0").key, key);
}

TEST_F(LostWorkers, ALoneWorkerThatStaysAwayEndsTheRequestWithWorkerLost) {  // HNG-21
  for (std::uint64_t number = 2; number <= 50; ++number) submit(number);
  down("p0");
  pass(seconds(1));
  EXPECT_EQ(ends.size(), 50U);
  EXPECT_EQ(failure(id), Reason::worker_lost);
  EXPECT_EQ(table.live(), 0U);
  pass(seconds(10));
  EXPECT_EQ(table.debts(), 0U);
}

// Two workers lost at once: each of these was a wait without an end.
TEST_F(LostWorkers, TheReturnOfOneWorkerDoesNotEndTheWaitForTheOther) {  // HNG-21
  say("d0", protocol::Granted{key, grant()});
  down("p0");
  pass(milliseconds(600));
  down("d0");
  up("d0");
  EXPECT_TRUE(ends.empty());
  pass(milliseconds(400));
  EXPECT_EQ(failure(id), Reason::worker_lost);
}

TEST_F(LostWorkers, AReturningPrefillWorkerDoesNotStandForTheDecodeWorker) {
  decoding(id);
  down("d0");
  down("p0");
  up("p0");
  pass(seconds(1));
  EXPECT_EQ(failure(id), Reason::worker_lost);
}

TEST_F(LostWorkers, ANewAttemptDoesNotBeginTheWaitAnew) {  // HNG-21
  down("d0");
  pass(milliseconds(600));
  down("p0");
  up("p0", 2);  // its new life begins an attempt, for which the decode node is still missing
  pass(milliseconds(399));
  EXPECT_TRUE(ends.empty());
  pass(milliseconds(1));
  EXPECT_EQ(failure(id), Reason::no_worker);
}

TEST_F(LostWorkers, ANewDecodeLegDoesNotEndTheWaitForThePrefillWorker) {
  up("d1");
  down("p0");
  const std::string first = node_of<protocol::Reserve>(id);
  down(first);
  protocol::Grant other = grant();
  other.length = 2;
  say(first, protocol::Granted{key, other});
  ASSERT_NE(node_of<protocol::Reserve>(id), first);
  pass(seconds(1));
  EXPECT_EQ(failure(id), Reason::worker_lost);
}

TEST_F(LostWorkers, AnotherWorkerThatComesUpTakesOver) {
  down("p0");
  pass(milliseconds(900));
  up("p1");
  EXPECT_EQ(last<protocol::Prefill>("p1").key.attempt, (Attempt{2, 2}));
  pass(seconds(1));
  EXPECT_TRUE(ends.empty());
}

TEST_F(LostWorkers, AnotherDecodeWorkerThatComesUpTakesOver) {
  down("d0");
  up("d1");
  EXPECT_EQ(last<protocol::Reserve>("d1").key.attempt, (Attempt{1, 2}));
  EXPECT_EQ(count<protocol::Prefill>("p0"), 1U);
}

TEST_F(LostWorkers, ANewLifeOfALoneWorkerTakesTheRequestOver) {
  decoding(id);
  down("d0");
  up("d0", 2);
  const auto reserve = last<protocol::Reserve>("d0");
  EXPECT_EQ(reserve.key.attempt, (Attempt{2, 2}));
  EXPECT_THAT(reserve.work.generated_ids, testing::ElementsAre(20));
}

TEST_F(LostWorkers, MessagesOfAnEarlierLifeAreNotHeard) {
  decoding(id);
  down("d0");
  up("d0", 2);
  say("d0", tokens(key, 1, {66}), 1);
  EXPECT_THAT(delivered(id), testing::ElementsAre(20));
}

TEST_F(LostWorkers, ACompleteStreamWhoseWorkerIsLostNeedsNoNewAttempt) {
  up("d1");
  decoding(id);
  say("d0", tokens(key, 1, {21, 22, 99}));
  down("d0");
  EXPECT_TRUE(attempts.empty());
  EXPECT_EQ(ends.at(id).finish, FinishReason::stop);
}

TEST_F(LostWorkers, ALostWorkerDuringTheWaitForFiguresOnlyEndsTheRequest) {
  say("d0", protocol::Granted{key, grant()});
  say("p0", tokens(key, 0, {20}));
  say("d0", protocol::Owned{key, 0});
  say("d0", finished(key, 1));
  down("p0");
  EXPECT_EQ(ends.at(id).finish, FinishReason::length);
  EXPECT_TRUE(attempts.empty());
}

TEST_F(LostWorkers, OnlyTheRequestsOfTheLostWorkerAreMoved) {  // HNG-23
  up("d1");
  const RequestId other = submit(2);
  const std::string node = node_of<protocol::Reserve>(other);
  down(node == "d0" ? "d1" : "d0");
  for (const auto& reason : attempts) EXPECT_EQ(reason, Reason::worker_lost);
  EXPECT_EQ(node_of<protocol::Reserve>(other), node);
}

}  // namespace
}  // namespace baton::router
