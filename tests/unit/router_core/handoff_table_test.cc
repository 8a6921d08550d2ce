#include "table_fixture.h"

namespace baton::router {
namespace {

using Table = OneRequest;

// ---- the ordinary life of a request ----

TEST_F(Table, APlacedRequestReservesAndPrefillsAtOnce) {
  EXPECT_EQ(last<protocol::Reserve>("d0").key, key);
  EXPECT_EQ(last<protocol::Prefill>("p0").key, key);
  EXPECT_TRUE(last<protocol::Prefill>("p0").needs_target);
  EXPECT_EQ(last<protocol::Prefill>("p0").work.deadline_ms, 600'000);
}

TEST_F(Table, MET08WhatPrefillTookFromItsPrefixCacheIsCountedOnceForTheRequest) {
  protocol::Tokens first = tokens(key, 0, {20});
  first.cached_tokens = 2;
  say("p0", first);
  EXPECT_EQ(table.facts(id)->cached_tokens, 2);
  first.cached_tokens = 3;
  say("p0", first);
  EXPECT_EQ(table.facts(id)->cached_tokens, 2);
  // A later attempt finds what the first one left.
  down("p0");
  up("p0", 2);
  protocol::Tokens second = tokens({id, {2, 2}}, 1, {21});
  second.cached_tokens = 3;
  say("p0", second, 2);
  EXPECT_EQ(delivered(id).size(), 2U);
  EXPECT_EQ(table.facts(id)->cached_tokens, 2);
}

TEST_F(Table, ALiarsCachedTokensAreNoMoreThanThePrompt) {
  protocol::Tokens first = tokens(key, 0, {20});
  first.cached_tokens = 1'000'000;
  say("p0", first);
  EXPECT_EQ(table.facts(id)->cached_tokens, 3);
}

TEST_F(Table, BothLegsGetOnePrefixRootAndRoutersOfOneSecretTheSame) {
  const auto root = last<protocol::Prefill>("p0").work.prefix_root;
  ASSERT_TRUE(root.has_value());
  EXPECT_EQ(last<protocol::Reserve>("d0").work.prefix_root, root);
  const auto root_of = [&](std::uint64_t seed, const std::string& secret) {
    table = HandoffTable(TableLimits{}, seed, secret);
    sent.clear();
    up("p0");
    up("d0");
    submit(9);
    return last<protocol::Prefill>("p0").work.prefix_root;
  };
  EXPECT_EQ(root_of(8, ""), root);
  const auto keyed = root_of(7, "a secret");
  EXPECT_NE(keyed, root);
  EXPECT_EQ(root_of(9, "a secret"), keyed);
}

TEST_F(Table, OneTokenNeedsNoDecodeWorker) {
  submit(2, 1);
  EXPECT_EQ(count<protocol::Reserve>("d0"), 1U);
  EXPECT_FALSE(last<protocol::Prefill>("p0").needs_target);
}

TEST_F(Table, TheGrantGoesToThePrefillWorker) {
  say("d0", protocol::Granted{key, grant()});
  EXPECT_EQ(last<protocol::Target>("p0").grant, grant());
  EXPECT_EQ(last<protocol::Target>("p0").node, NodeId("d0"));
  say("d0", protocol::Granted{key, grant()});
  EXPECT_EQ(count<protocol::Target>("p0"), 1U);
}

TEST_F(Table, AGrantOfAnotherLengthIsNotUsed) {
  protocol::Grant other = grant();
  other.length = 2;
  say("d0", protocol::Granted{key, other});
  EXPECT_EQ(count<protocol::Target>("p0"), 0U);
  EXPECT_THAT(attempts, testing::ElementsAre(Reason::length_mismatch));
}

TEST_F(Table, TheOwnedRequestReleasesItsPrefillWorkerAndEnds) {
  decoding(id);
  EXPECT_EQ(last<protocol::Release>("p0").key, key);
  say("p0", protocol::Gone{key});
  say("d0", tokens(key, 0, {20}));
  say("d0", tokens(key, 1, {21, 22}));
  say("d0", finished(key, 3));
  EXPECT_THAT(delivered(id), testing::ElementsAre(20, 21, 22));
  EXPECT_EQ(ends.at(id).finish, FinishReason::length);
  EXPECT_EQ(count<protocol::Cancel>("d0"), 1U);
  EXPECT_EQ(table.debts(), 1U);
  say("d0", protocol::Gone{key});
  EXPECT_EQ(table.debts(), 0U);
  EXPECT_EQ(table.live(), 0U);
}

TEST_F(Table, AnEndAtTokenZeroEndsBothLegs) {
  say("p0", tokens(key, 0, {99}));
  say("p0", finished(key, 1));
  EXPECT_THAT(delivered(id), testing::ElementsAre(99));
  EXPECT_TRUE(ends.contains(id));
  EXPECT_EQ(count<protocol::Cancel>("p0") + count<protocol::Release>("p0"), 1U);
  EXPECT_EQ(count<protocol::Cancel>("d0"), 1U);
}

TEST_F(Table, RepeatedTimesOfThePrefillWorkerCountOnce) {
  protocol::Tokens first = tokens(key, 0, {20});
  first.times.prefill = milliseconds(70);
  say("p0", first);
  say("p0", first);
  EXPECT_EQ(table.facts(id)->times.prefill, milliseconds(70));
}

// ---- tokens: each index once, in order ----

TEST_F(Table, RepeatedTokensAreDeliveredOnce) {
  decoding(id);
  say("d0", tokens(key, 0, {20, 21}));
  say("d0", tokens(key, 0, {20, 21, 22}));
  EXPECT_THAT(delivered(id), testing::ElementsAre(20, 21, 22));
}

TEST_F(Table, EarlyTokensWaitForTheGapWhichIsAskedForOnce) {
  decoding(id);
  say("d0", tokens(key, 2, {22}));
  say("d0", tokens(key, 3, {23}));
  EXPECT_THAT(delivered(id), testing::ElementsAre(20));
  EXPECT_EQ(count<protocol::Resume>("d0"), 1U);
  EXPECT_EQ(last<protocol::Resume>("d0").next_index, 1);
  say("d0", tokens(key, 1, {21}));
  EXPECT_THAT(delivered(id), testing::ElementsAre(20, 21, 22, 23));
  EXPECT_EQ(count<protocol::Resume>("d0"), 1U);
}

TEST_F(Table, TokensFarAheadOfAGapAreNotKept) {
  decoding(id);
  say("d0", tokens(key, 257, {5}));
  say("d0", tokens(key, 258, {6}));  // 257 ahead of what comes next
  std::vector<TokenId> gap(256, 1);
  say("d0", tokens(key, 1, gap));
  EXPECT_EQ(delivered(id).size(), 1 + 256 + 1U);
}

TEST_F(Table, AnIndexAtTheEndOfItsRangeIsOnlyEarly) {
  decoding(id);
  say("d0", tokens(key, std::numeric_limits<std::int32_t>::max(), {5, 6}));
  EXPECT_THAT(delivered(id), testing::ElementsAre(20));
}

TEST_F(Table, AFinishBeforeItsTokensAsksForThem) {
  decoding(id);
  say("d0", finished(key, 3));
  EXPECT_FALSE(ends.contains(id));
  EXPECT_EQ(last<protocol::Resume>("d0").next_index, 1);
  say("d0", tokens(key, 1, {21, 22}));
  say("d0", finished(key, 3));
  EXPECT_TRUE(ends.contains(id));
}

// ---- what is not current ----

TEST_F(Table, AnotherWorkersMessagesAboutTheAttemptChangeNothing) {
  up("d1");
  say("d1", protocol::Granted{key, grant()});
  say("d1", tokens(key, 0, {66}));
  EXPECT_EQ(count<protocol::Target>("p0"), 0U);
  EXPECT_THAT(delivered(id), testing::IsEmpty());
  EXPECT_EQ(count<protocol::Cancel>("d1"), 1U);  // once, until it says Gone
}

TEST_F(Table, ALowerAttemptIsCancelledWhereNothingNewerLives) {
  up("d1");
  say("d0", protocol::Refused{key, Reason::overloaded, "", 1});
  ASSERT_EQ(node_of<protocol::Reserve>(id), "d0");
  pass(milliseconds(20));
  ASSERT_EQ(node_of<protocol::Reserve>(id), "d1");
  say("d0", protocol::Owned{key, 0});
  EXPECT_EQ(last<protocol::Cancel>("d0").key, key);
}

TEST_F(Table, GoneForTheCurrentAttemptMakesANewOne) {
  say("d0", protocol::Gone{key});
  EXPECT_THAT(attempts, testing::ElementsAre(Reason::lease_expired));
  EXPECT_EQ(last<protocol::Prefill>("p0").key.attempt, (Attempt{2, 2}));
}

TEST_F(Table, LateGoneOfAnEarlierAttemptKeepsANewerDebt) {
  say("d0", protocol::Gone{key});  // now (2, 2)
  drop(id);
  ASSERT_EQ(table.debts(), 2U);
  say("d0", protocol::Gone{key});
  EXPECT_EQ(table.debts(), 2U);
  say("d0", protocol::Gone{{id, {2, 2}}});
  EXPECT_EQ(table.debts(), 1U);
}

TEST_F(Table, ADebtOfAnEarlierAttemptDoesNotStandForANewerOne) {
  say("d0", protocol::Gone{key});  // now (2, 2), and p0 owes an answer about (1, 1)
  const protocol::AttemptKey second{id, {2, 2}};
  say("d0", protocol::Granted{second, grant()});
  say("p0", tokens(second, 0, {20}));
  say("d0", protocol::Owned{second, 0});
  down("p0");
  up("p0");
  say("p0", handed_over(second));
  EXPECT_EQ(last<protocol::Cancel>("p0").key, second);
  ASSERT_EQ(table.debts(), 2U);
  say("p0", protocol::Gone{key});
  EXPECT_EQ(table.debts(), 2U);
  say("p0", protocol::Gone{second});
  EXPECT_EQ(table.debts(), 1U);
}

TEST_F(Table, FinishedOfAForgottenRequestIsReleased) {
  say("d0", finished({{1, 50}, {1, 1}}, 3));
  EXPECT_EQ(last<protocol::Release>("d0").key.request, (RequestId{1, 50}));
}

TEST_F(Table, AnInventoryIsAnsweredWithWhatIsUnknown) {
  up("d1");
  const protocol::AttemptKey stranger{{1, 50}, {1, 1}};
  say("d0", protocol::Inventory{{key, stranger}});
  EXPECT_THAT(last<protocol::Unknown>("d0").keys, testing::ElementsAre(stranger));
  say("d1", protocol::Inventory{{key}});  // the request lives, but not there
  EXPECT_THAT(last<protocol::Unknown>("d1").keys, testing::ElementsAre(key));
}

TEST_F(Table, AnInventoryThatListsADebtIsTold) {
  drop(id);
  say("p0", protocol::Inventory{{key}});
  EXPECT_EQ(count<protocol::Cancel>("p0"), 2U);
  EXPECT_EQ(count<protocol::Unknown>("p0"), 0U);
}

TEST_F(Table, APrefillWorkerThatForgotThePromptIsFoundOutByItsSecondInventory) {
  say("p0", protocol::Inventory{});  // may have been made before the prompt arrived
  EXPECT_TRUE(attempts.empty());
  say("p0", protocol::Inventory{});
  EXPECT_EQ(last<protocol::Prefill>("p0").key.attempt, (Attempt{2, 2}));
}

TEST_F(Table, ADecodeWorkerThatForgotItsGrantIsFoundOut) {
  say("d0", protocol::Granted{key, grant()});
  say("d0", protocol::Inventory{});
  EXPECT_TRUE(attempts.empty());
  say("d0", protocol::Inventory{});
  EXPECT_EQ(last<protocol::Reserve>("d0").key.attempt, (Attempt{1, 2}));
  EXPECT_EQ(count<protocol::Prefill>("p0"), 1U);
}

TEST_F(Table, ADecodeWorkerThatForgotAStreamIsFoundOut) {
  decoding(id);
  say("d0", protocol::Inventory{});
  say("d0", protocol::Inventory{});
  EXPECT_EQ(last<protocol::Prefill>("p0").key.attempt, (Attempt{2, 2}));
  EXPECT_THAT(last<protocol::Prefill>("p0").work.generated_ids, testing::ElementsAre(20));
}

TEST_F(Table, AnInventoryThatListsTheAttemptChangesNothing) {
  decoding(id);
  for (int i = 0; i < 3; ++i) say("d0", protocol::Inventory{{key}});
  EXPECT_TRUE(attempts.empty());
}

TEST_F(Table, WhatAWorkerIsSentAgainIsLookedForAnew) {
  say("p0", protocol::Inventory{});
  down("p0");
  up("p0");
  say("p0", protocol::Inventory{});
  EXPECT_TRUE(attempts.empty());
}

TEST_F(Table, AWorkerThatHasDoneItsPartMayForget) {
  say("p0", tokens(key, 0, {20}));
  for (int i = 0; i < 3; ++i) say("p0", protocol::Inventory{});
  EXPECT_TRUE(attempts.empty());
}

// ---- refusals (RTR-16: either leg failing ends or moves the other) ----

TEST_F(Table, ARefusalForGoodEndsTheRequestOnBothWorkers) {
  say("p0", protocol::Refused{key, Reason::prompt_exceeds_pool, "too long", 0});
  EXPECT_EQ(failure(id), Reason::prompt_exceeds_pool);
  EXPECT_EQ(count<protocol::Cancel>("d0"), 1U);
  EXPECT_EQ(count<protocol::Cancel>("p0"), 1U);
}

TEST_F(Table, ARequestThatHasOutgrownEveryCacheIsNotToldThatItsPromptIsTooLong) {
  decoding(id);
  say("d0", tokens(key, 1, {21}));
  protocol::Finished full = finished(key, 2);
  full.finish = FinishReason::error;
  full.reason = Reason::cannot_grow;
  say("d0", full);  // elsewhere it might fit
  const protocol::AttemptKey second{id, {2, 2}};
  ASSERT_EQ(last<protocol::Prefill>("p0").key, second);
  say("p0", protocol::Refused{second, Reason::prompt_exceeds_pool, "a prompt of 5 tokens", 0});
  EXPECT_EQ(failure(id), Reason::cannot_grow);
  EXPECT_THAT(ends.at(id).error->message(),
              testing::HasSubstr("a prompt of 3 tokens and 2 generated ones do not fit p0"));
  EXPECT_THAT(delivered(id), testing::ElementsAre(20, 21));
}

TEST_F(Table, APrefillErrorForGoodEndsTheDecodeLeg) {
  protocol::Finished failed = finished(key, 0);
  failed.finish = FinishReason::error;
  failed.reason = Reason::invalid_request;
  say("p0", failed);
  EXPECT_EQ(failure(id), Reason::invalid_request);
  EXPECT_EQ(count<protocol::Cancel>("d0"), 1U);
}

TEST_F(Table, AnOverloadedPrefillWorkerIsPassedOver) {
  up("p1");
  say("p0", protocol::Refused{key, Reason::overloaded, "", 200});
  EXPECT_EQ(last<protocol::Prefill>("p1").key.attempt, (Attempt{2, 2}));
}

TEST_F(Table, RefusalsInARowWithoutATokenEndTheRequest) {
  for (std::uint32_t leg = 1; leg <= 3; ++leg) {
    say("p0", protocol::Refused{{id, {leg, leg}}, Reason::overloaded, "full", 200});
  }
  EXPECT_EQ(failure(id), Reason::overloaded);
  EXPECT_EQ(attempts.size(), 2U);
}

TEST_F(Table, AFailedHandoffTakesANewDecodeLegAndKeepsThePrompt) {
  up("d1");
  say("d0", protocol::Granted{key, grant()});
  say("p0", tokens(key, 0, {20}));
  say("p0", protocol::HandoffEnded{key, false, Reason::digest_mismatch, "", {}});
  EXPECT_EQ(count<protocol::Prefill>("p0"), 1U);
  EXPECT_EQ(last<protocol::Reserve>("d1").key.attempt, (Attempt{1, 2}));
  EXPECT_EQ(last<protocol::Cancel>("d0").key, key);
}

TEST_F(Table, APromptThatGaveWayToAnotherOneIsNobodysFailure) {
  for (std::uint32_t leg = 1; leg <= 5; ++leg) {  // more than are allowed without a token
    const protocol::AttemptKey attempt{id, {1, leg}};
    say("d0", protocol::Granted{attempt, grant()});
    say("p0", protocol::HandoffEnded{attempt, false, Reason::no_space, "", {}});
    EXPECT_EQ(last<protocol::Cancel>("d0").key, attempt);
    EXPECT_EQ(last<protocol::Reserve>("d0").key.attempt, (Attempt{1, leg + 1}));
  }
  EXPECT_EQ(count<protocol::Prefill>("p0"), 1U);
}

TEST_F(Table, ReleasedUnitsRaiseBothLegs) {
  say("d0", protocol::Granted{key, grant()});
  say("p0", tokens(key, 0, {20}));
  say("p0", protocol::Refused{key, Reason::released, "", 0});
  EXPECT_EQ(last<protocol::Prefill>("p0").key.attempt, (Attempt{2, 2}));
  EXPECT_THAT(last<protocol::Prefill>("p0").work.generated_ids, testing::ElementsAre(20));
}

TEST_F(Table, AHandoffWhoseAnswerWasLostReleasesThePrefillWorker) {
  say("d0", protocol::Granted{key, grant()});
  say("p0", tokens(key, 0, {20}));
  say("d0", protocol::Owned{key, 0});
  EXPECT_EQ(count<protocol::Release>("p0"), 0U);  // its figures are still to come
  say("p0", protocol::HandoffEnded{key, false, Reason::worker_lost, "", {}});
  EXPECT_EQ(count<protocol::Release>("p0"), 1U);
  EXPECT_TRUE(attempts.empty());
}

// ---- deadlines of the states ----

TEST_F(Table, AnUnansweredReservationGoesElsewhere) {
  up("d1");
  pass(seconds(5));
  EXPECT_EQ(last<protocol::Reserve>("d1").key.attempt, (Attempt{1, 2}));
  EXPECT_THAT(attempts, testing::ElementsAre(Reason::deadline_exceeded));
}

TEST_F(Table, ALaterReservationHasItsDeadlineToo) {
  say("d0", protocol::Granted{key, grant()});
  say("p0", protocol::HandoffEnded{key, false, Reason::worker_lost, "", {}});
  ASSERT_EQ(last<protocol::Reserve>("d0").key.attempt, (Attempt{1, 2}));
  pass(seconds(5));  // before any token
  EXPECT_EQ(last<protocol::Reserve>("d0").key.attempt, (Attempt{1, 3}));
}

TEST_F(Table, AHandoffThatTakesTooLongIsTriedAgain) {
  say("d0", protocol::Granted{key, grant()});
  say("p0", tokens(key, 0, {20}));
  pass(seconds(15));
  EXPECT_EQ(last<protocol::Prefill>("p0").key.attempt, (Attempt{2, 2}));
  EXPECT_THAT(last<protocol::Reserve>("d0").work.generated_ids, testing::ElementsAre(20));
}

TEST_F(Table, ASilentStreamIsMovedAfterItsTokenWait) {
  decoding(id);
  pass(seconds(59));
  EXPECT_TRUE(attempts.empty());
  pass(seconds(1));
  EXPECT_THAT(attempts, testing::ElementsAre(Reason::deadline_exceeded));
}

TEST_F(Table, TheRequestsDeadlineEndsItInAnyState) {
  for (std::uint64_t number = 2; number <= 4; ++number) submit(number);
  decoding(id);
  say("p0", tokens({{1, 2}, {1, 1}}, 0, {20}));
  for (std::uint64_t number = 1; number <= 4; ++number) {
    // Keeps the decode leg answered, so that only the request's own deadline is left.
    say("d0", protocol::Granted{{{1, number}, {1, 1}}, grant()});
  }
  now += seconds(600);
  pass(Duration{});
  for (std::uint64_t number = 1; number <= 4; ++number) {
    EXPECT_EQ(failure({1, number}), Reason::deadline_exceeded);
  }
  EXPECT_EQ(table.live(), 0U);
}

TEST_F(Table, FiguresOfAHandoffAreWaitedForBriefly) {
  say("d0", protocol::Granted{key, grant()});
  say("p0", tokens(key, 0, {20}));
  say("d0", protocol::Owned{key, 0});
  say("d0", tokens(key, 1, {21}));
  say("d0", finished(key, 2));
  EXPECT_FALSE(ends.contains(id));
  pass(milliseconds(100));
  EXPECT_TRUE(ends.contains(id));
}

// ---- debts ----

TEST_F(Table, ADebtIsRepeatedOnANewConnectionUntilGone) {
  drop(id);
  down("d0");
  up("d0");
  EXPECT_EQ(count<protocol::Cancel>("d0"), 2U);
  say("d0", protocol::Gone{key});
  down("d0");
  up("d0");
  EXPECT_EQ(count<protocol::Cancel>("d0"), 2U);
}

TEST_F(Table, ADebtEndsWithTheWorkersLifeOrTwoLeases) {
  drop(id);
  down("d0");
  up("d0", 2);
  EXPECT_EQ(table.debts(), 1U);
  pass(seconds(10));
  EXPECT_EQ(table.debts(), 0U);
}

}  // namespace
}  // namespace baton::router
