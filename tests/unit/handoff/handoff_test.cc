// P2 at the level of the two cores: whatever is changed on the way, nothing is verified that is not
// the right cache, and the refusal has its reason.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "handoff_pair.h"

namespace baton::handoff {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

struct Handoff : testing::Test {
  void hand_over() {
    pair.open_grant();
    pair.compute();
    pair.send_target();
    pair.run();
    pair.send_commit();
    pair.run();
  }
  HandoffPair pair;
};

TEST_F(Handoff, AnUndisturbedOneIsVerifiedOnceAndTheSourceBecomesIdle) {
  hand_over();
  ASSERT_THAT(pair.verified, SizeIs(1));
  EXPECT_EQ(pair.verified[0].commit.length, HandoffPair::length);
  EXPECT_THAT(pair.verified[0].commit.tokens.ids, ElementsAre(42));
  ASSERT_THAT(pair.accepted, SizeIs(1));
  EXPECT_THAT(pair.idle, SizeIs(1));
  EXPECT_EQ(pair.sender.sources(), 0u);
  // Two full layers of 3 units and one window layer of 2, K and V.
  EXPECT_EQ(pair.accepted[0].facts.units, 2 * (2 * 3 + 2));
}

TEST_F(Handoff, COR11_BlocksOfOtherSizesMapUnitByUnitAndTouchNothingElse) {
  hand_over();
  EXPECT_THAT(pair.written, SizeIs(16));
  for (const UnitPlace& place : pair.written) {
    const std::int32_t block = std::get<3>(place);
    const std::uint32_t unit = std::get<4>(place);
    // Unit 3 (the second of blocks 8 and 9) is past the prompt.
    EXPECT_FALSE((block == 8 || block == 9) && unit == 1);
    // The window group needs units 1 and 2 only.
    EXPECT_FALSE(block == 7 && unit == 0);
  }
}

TEST_F(Handoff, CommitBeforeTheTargetIsKnownWaitsForIt) {
  pair.compute();
  pair.send_commit();
  pair.run();
  EXPECT_EQ(pair.messages, 0);
  pair.open_grant();
  pair.send_target();
  pair.run();
  EXPECT_THAT(pair.accepted, SizeIs(1));
}

TEST_F(Handoff, LengthOneLessAndOneMoreAreRefused) {
  for (int delta : {-1, 1}) {
    HandoffPair other;
    other.open_grant();
    other.compute();
    other.send_target();
    other.change_commit = [delta](protocol::Commit& commit) { commit.length += delta; };
    other.send_commit();
    other.run();
    EXPECT_THAT(other.verified, IsEmpty());
    EXPECT_THAT(other.commits_refused, ElementsAre(Reason::length_mismatch));
    EXPECT_THAT(other.failed, SizeIs(1));
  }
}

TEST_F(Handoff, AnotherFingerprintIsRefused) {
  pair.change_commit = [](auto& commit) { commit.fingerprint = HandoffPair::fingerprint(2); };
  hand_over();
  EXPECT_THAT(pair.verified, IsEmpty());
  EXPECT_THAT(pair.commits_refused, ElementsAre(Reason::fingerprint_mismatch));
}

TEST_F(Handoff, AFlippedBitIsFoundAndTheUnitSentAgainOnce) {
  int flips = 0;
  pair.change_payload = [&](const auto& header, auto& payload) {
    if (header.layer == 1 && flips++ == 0) payload[1][7] ^= std::byte{4};
  };
  hand_over();
  EXPECT_THAT(pair.commits_refused, ElementsAre(Reason::digest_mismatch));
  EXPECT_THAT(pair.verified, SizeIs(1));
  EXPECT_THAT(pair.accepted, SizeIs(1));
}

TEST_F(Handoff, ABitThatFlipsEachTimeEndsTheHandoffAndNothingIsVerified) {
  pair.change_payload = [](const auto& header, auto& payload) {
    if (header.layer == 1) payload[0][0] ^= std::byte{1};
  };
  hand_over();
  EXPECT_THAT(pair.verified, IsEmpty());
  EXPECT_THAT(pair.commits_refused, Each(Reason::digest_mismatch));
  ASSERT_THAT(pair.failed, SizeIs(1));
  EXPECT_EQ(pair.failed[0].reason, Reason::digest_mismatch);
}

TEST_F(Handoff, SwappedUnitsAreFoundByTheirBindings) {
  pair.change_payload = [](const auto& header, auto& payload) {
    if (header.layer == 0) std::swap(payload[0], payload[1]);
  };
  hand_over();
  EXPECT_THAT(pair.verified, IsEmpty());
  EXPECT_THAT(pair.failed, SizeIs(1));
}

TEST_F(Handoff, UnitsOfAnotherLayerAreFoundByTheirBindings) {
  // The header says layer 2, the payload is layer 0's: shapes are equal.
  pair.change_header = [](auto& header) {
    if (header.layer == 0) {
      header.layer = 2;
    } else if (header.layer == 2) {
      header.layer = 0;
    }
  };
  hand_over();
  EXPECT_THAT(pair.verified, IsEmpty());
}

TEST_F(Handoff, AnOldGenerationEpochOrLegIsRefusedBeforeAByteIsTaken) {
  const std::vector<std::pair<Reason, std::function<void(protocol::UnitHeader&)>>> changes = {
      {Reason::stale_generation, [](auto& header) { header.slots[0].generation -= 1; }},
      {Reason::stale_epoch, [](auto& header) { header.to = Epoch(54); }},
      {Reason::stale_attempt, [](auto& header) { header.key.attempt.prefill_leg = 9; }},
      {Reason::stale_attempt, [](auto& header) { header.key.attempt.decode_leg = 9; }},
      {Reason::unknown_request, [](auto& header) { header.key.request.low = 99; }},
      {Reason::unknown_request, [](auto& header) { header.grant = 78; }},
      {Reason::out_of_range, [](auto& header) { header.slots[0].first += 1; }},
      {Reason::out_of_range, [](auto& header) { header.first_unit = 900; }},
      {Reason::out_of_range, [](auto& header) { header.layer = 7; }},
      {Reason::length_mismatch, [](auto& header) { header.unit_bytes = 1; }},
  };
  for (const auto& [reason, change] : changes) {
    HandoffPair other;
    other.open_grant();
    other.compute();
    other.change_header = change;
    other.send_target();
    other.run();
    EXPECT_THAT(other.units_refused, Each(reason));
    EXPECT_THAT(other.units_refused, testing::Not(IsEmpty()));
    EXPECT_THAT(other.written, IsEmpty());
    EXPECT_THAT(other.failed, SizeIs(1));
  }
}

TEST_F(Handoff, ACommitOfAnotherAttemptOrGrantIsRefused) {
  const std::vector<std::pair<Reason, std::function<void(protocol::Commit&)>>> changes = {
      {Reason::stale_attempt, [](auto& commit) { commit.key.attempt.decode_leg = 2; }},
      {Reason::unknown_request, [](auto& commit) { commit.grant = 3; }},
      {Reason::unknown_request, [](auto& commit) { commit.key.request.high = 8; }},
      {Reason::protocol_violation, [](auto& commit) { commit.tokens.ids.clear(); }},
      {Reason::unknown_component,
       [](auto& commit) { commit.components[0].component = protocol::Component(9); }},
      {Reason::unknown_component, [](auto& commit) { commit.components.pop_back(); }},
      {Reason::length_mismatch, [](auto& commit) { commit.components[1].units += 1; }},
      {Reason::length_mismatch, [](auto& commit) { commit.components[2].dtype = 2; }},
      {Reason::digest_mismatch, [](auto& commit) { commit.components[3].root.low ^= 1; }},
  };
  for (const auto& [reason, change] : changes) {
    HandoffPair other;
    other.open_grant();
    other.compute();
    other.send_target();
    other.change_commit = change;
    other.send_commit();
    other.run();
    EXPECT_THAT(other.verified, IsEmpty());
    EXPECT_THAT(other.commits_refused, ElementsAre(reason));
  }
}

TEST_F(Handoff, UnitsThatNeverArriveEndAtTheDeadlineWithTheirNumber) {
  pair.open_grant();
  pair.receiver.commit(pair.link, {}, pair.now);  // of no grant: answered at once
  pair.run();
  EXPECT_THAT(pair.commits_refused, ElementsAre(Reason::unknown_request));
  pair.compute();
  pair.send_target();
  pair.send_commit();
  // The data messages are lost, the commit arrives.
  for (SenderEffect& effect : pair.sender.take_effects()) {
    if (auto* commit = std::get_if<SendCommit>(&effect)) {
      pair.receiver.commit(pair.link, commit->commit, pair.now);
    }
  }
  pair.receiver.tick(pair.now + std::chrono::seconds(9));
  EXPECT_THAT(pair.receiver.take_effects(), IsEmpty());
  pair.receiver.tick(pair.now + std::chrono::seconds(11));
  const std::vector<ReceiverEffect> effects = pair.receiver.take_effects();
  ASSERT_THAT(effects, SizeIs(1));
  EXPECT_EQ(std::get<RefuseCommit>(effects[0]).message.reason, Reason::missing_units);
}

TEST_F(Handoff, ADuplicateOfAPresentUnitIsRefusedAndChangesNothing) {
  pair.open_grant();
  pair.compute();
  pair.send_target();
  std::vector<SenderEffect> effects = pair.sender.take_effects();
  const SendUnits first = std::get<SendUnits>(effects.front());
  const std::uint64_t bytes = first.header.units * 2 * Memory::unit_bytes;
  pair.receiver.offered(pair.link, TransferId(1), first.header, bytes);
  pair.receiver.offered(pair.link, TransferId(2), first.header, bytes);
  const std::vector<ReceiverEffect> answers = pair.receiver.take_effects();
  ASSERT_THAT(answers, SizeIs(2));
  EXPECT_TRUE(std::holds_alternative<AcceptUnits>(answers[0]));
  EXPECT_EQ(std::get<RefuseUnits>(answers[1]).reason, Reason::duplicate);
}

TEST_F(Handoff, ALinkThatIsNotKnownMayNotOffer) {
  pair.open_grant();
  pair.compute();
  pair.send_target();
  const SendUnits first = std::get<SendUnits>(pair.sender.take_effects().front());
  pair.receiver.offered(LinkId(1234), TransferId(1), first.header,
                        first.header.units * 2 * Memory::unit_bytes);
  EXPECT_EQ(std::get<RefuseUnits>(pair.receiver.take_effects()[0]).reason,
            Reason::protocol_violation);
}

TEST_F(Handoff, ALostLinkFailsTheSourceWhichThenServesANewTarget) {
  pair.open_grant();
  pair.compute();
  pair.send_target();
  pair.send_commit();
  pair.sender.take_effects();
  pair.sender.link_down(pair.link, pair.now);
  const std::vector<SenderEffect> effects = pair.sender.take_effects();
  const auto failed = std::find_if(effects.begin(), effects.end(), [](const auto& effect) {
    return std::holds_alternative<SourceFailed>(effect);
  });
  ASSERT_NE(failed, effects.end());
  EXPECT_EQ(std::get<SourceFailed>(*failed).reason, Reason::worker_lost);
  // Another decode worker, another leg: everything is offered again.
  protocol::AttemptKey next = pair.key;
  next.attempt.decode_leg = 2;
  protocol::Grant grant = HandoffPair::grant();
  grant.id = 500;
  pair.sender.target(pair.source, next, NodeId("e"), Epoch(66), grant, pair.now);
  pair.sender.link_up(LinkId(10), NodeId("e"), Epoch(66), {7, 7}, pair.now);
  std::size_t offers = 0;
  std::size_t commits = 0;
  for (SenderEffect& effect : pair.sender.take_effects()) {
    if (const auto* units = std::get_if<SendUnits>(&effect)) {
      ++offers;
      EXPECT_EQ(units->header.key, next);
      EXPECT_EQ(units->header.grant, 500u);
    }
    if (std::holds_alternative<SendCommit>(effect)) ++commits;
  }
  EXPECT_EQ(offers, HandoffPair::layers);
  EXPECT_EQ(commits, 1u);
}

TEST_F(Handoff, COR03_AbortIsIdleOnlyWhenTheLastOpenSendHasEnded) {
  pair.open_grant();
  pair.compute();
  pair.send_target();
  std::vector<TransferId> open;
  for (SenderEffect& effect : pair.sender.take_effects()) {
    if (const auto* units = std::get_if<SendUnits>(&effect)) open.push_back(units->id);
  }
  ASSERT_THAT(open, SizeIs(3));
  pair.sender.abort(pair.source);
  pair.sender.abort(SourceId(99));  // unknown: nothing
  std::size_t cancels = 0;
  for (SenderEffect& effect : pair.sender.take_effects()) {
    cancels += std::holds_alternative<CancelSend>(effect) ? 1 : 0;
    EXPECT_FALSE(std::holds_alternative<SourceIdle>(effect));
  }
  EXPECT_EQ(cancels, 3u);
  pair.sender.send_done(open[0], SendOutcome::cancelled, pair.now);
  pair.sender.send_done(open[1], SendOutcome::ok, pair.now);
  EXPECT_THAT(pair.sender.take_effects(), IsEmpty());
  pair.sender.send_done(open[2], SendOutcome::cancelled, pair.now);
  EXPECT_THAT(pair.sender.take_effects(), SizeIs(1));
}

TEST_F(Handoff, CloseKeepsTheGrantInQuarantineUntilTheLastReceiveHasEnded) {
  pair.open_grant();
  pair.compute();
  pair.send_target();
  const SendUnits first = std::get<SendUnits>(pair.sender.take_effects().front());
  pair.receiver.offered(pair.link, TransferId(1), first.header,
                        first.header.units * 2 * Memory::unit_bytes);
  pair.receiver.take_effects();
  pair.receiver.close(77);
  std::vector<ReceiverEffect> effects = pair.receiver.take_effects();
  ASSERT_THAT(effects, SizeIs(1));
  EXPECT_TRUE(std::holds_alternative<CancelReceive>(effects[0]));
  // Offers in between are refused.
  pair.receiver.offered(pair.link, TransferId(2), first.header,
                        first.header.units * 2 * Memory::unit_bytes);
  EXPECT_EQ(std::get<RefuseUnits>(pair.receiver.take_effects()[0]).reason, Reason::released);
  pair.receiver.received(TransferId(1), {});
  effects = pair.receiver.take_effects();
  ASSERT_THAT(effects, SizeIs(1));
  EXPECT_EQ(std::get<GrantClosed>(effects[0]).grant, 77u);
  EXPECT_EQ(pair.receiver.grants(), 0u);
}

TEST_F(Handoff, HNG25_ASendWithoutRoomIsRepeatedAndDeliveredOnce) {
  pair.open_grant();
  pair.compute();
  pair.send_target();
  std::vector<SenderEffect> effects = pair.sender.take_effects();
  const TransferId postponed = std::get<SendUnits>(effects[0]).id;
  pair.sender.send_postponed(postponed);
  pair.sender.tick(pair.now);
  effects = pair.sender.take_effects();
  ASSERT_THAT(effects, SizeIs(1));
  EXPECT_EQ(std::get<SendUnits>(effects[0]).id, postponed);
}

TEST_F(Handoff, ACommitWithoutAnswerFailsAtItsDeadline) {
  pair.lose_answers = true;
  hand_over();
  pair.sender.tick(pair.now + std::chrono::seconds(11));
  pair.run();
  ASSERT_THAT(pair.failed, SizeIs(1));
  EXPECT_EQ(pair.failed[0].reason, Reason::deadline_exceeded);
}

TEST(HandoffGeometry, NeededUnitsOfAWindowHoldItsLastPositions) {
  EXPECT_EQ(first_needed_unit(0, 1000), 0u);
  EXPECT_EQ(first_needed_unit(16, 15), 0u);
  EXPECT_EQ(first_needed_unit(16, 37), 1u);  // positions 22 … 36
  EXPECT_EQ(first_needed_unit(16, 31), 1u);  // positions 16 … 30
  EXPECT_EQ(end_unit(1), 1u);
  EXPECT_EQ(end_unit(16), 1u);
  EXPECT_EQ(end_unit(17), 2u);
}

}  // namespace
}  // namespace baton::handoff
