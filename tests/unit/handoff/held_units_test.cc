// What a grant holds already is not sent, and is proved by the commit like everything else.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "handoff_pair.h"

namespace baton::handoff {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

/// Blocks 5 and 7 of the receiver are the sender's first two units of each layer.
struct HeldUnits : testing::Test {
  HeldUnits() {
    pair.compute();
    fill(0, 0, 5, {10, 11});
    fill(0, 1, 5, {10, 11});
    fill(1, 0, 7, {20, 21});
  }
  /// Puts the sender's blocks (of a unit each) into a block of the receiver.
  void fill(std::uint32_t group, std::uint32_t layer, std::int32_t block,
            const std::vector<std::int32_t>& from) {
    for (protocol::Component component : {protocol::Component::k, protocol::Component::v}) {
      for (std::uint32_t i = 0; i < from.size(); ++i) {
        pair.target_memory.at({group, layer, component, block, i, 1}, 0) =
            pair.source_memory.at({group, layer, component, from[i], 0, 1}, 0);
      }
    }
  }
  static protocol::Grant holding(std::uint32_t full, std::uint32_t window, std::uint64_t id = 77) {
    protocol::Grant grant = HandoffPair::grant();
    grant.id = id;
    grant.groups[0].held_units = full;
    grant.groups[1].held_units = window;
    return grant;
  }
  void hand_over(const protocol::Grant& grant) {
    pair.open(grant);
    send_all(grant);
  }
  void hand_over_undigested(const protocol::Grant& grant) {
    pair.receiver.open(pair.key, grant, HandoffPair::target_blocks());
    send_all(grant);
  }
  void send_all(const protocol::Grant& grant) {
    pair.send_target(grant);
    pair.run();
    pair.send_commit();
    pair.run();
  }
  /// As a new decode leg does: another grant for the same source.
  void hand_over_again(const protocol::Grant& grant) {
    pair.receiver.close(77);
    pair.open(grant);
    pair.send_target(grant);
    pair.run();
  }

  HandoffPair pair;
};

TEST_F(HeldUnits, AreNotSentAndTheCommitCoversThem) {
  hand_over(holding(2, 1));
  ASSERT_THAT(pair.verified, SizeIs(1));
  EXPECT_THAT(pair.digested, ElementsAre(5, 7));
  // One unit is left of each of three layers, K and V.
  ASSERT_THAT(pair.accepted, SizeIs(1));
  EXPECT_EQ(pair.accepted[0].facts.units, 6);
  EXPECT_EQ(pair.accepted[0].facts.held_units, 2 * (2 * 2 + 1));
  EXPECT_EQ(pair.accepted[0].facts.bytes, static_cast<std::int64_t>(6 * Memory::unit_bytes));
  for (const UnitPlace& place : pair.written) {
    EXPECT_NE(std::get<3>(place), 5);
    EXPECT_NE(std::get<3>(place), 7);
  }
}

TEST_F(HeldUnits, OfOneGroupLeaveTheOthersToBeSent) {
  hand_over(holding(2, 0));
  ASSERT_THAT(pair.accepted, SizeIs(1));
  EXPECT_EQ(pair.accepted[0].facts.units, 2 * (2 * 1 + 2));
}

TEST_F(HeldUnits, OneThatDiffersIsFoundAndTheCommitRefused) {  // P2
  pair.target_memory.at({0, 1, protocol::Component::v, 5, 1, 1}, 0)[3] ^= std::byte{1};
  hand_over(holding(2, 1));
  EXPECT_THAT(pair.verified, IsEmpty());
  EXPECT_THAT(pair.differ, ElementsAre(77));
  EXPECT_THAT(pair.commits_refused, ElementsAre(Reason::held_units_differ));
  ASSERT_THAT(pair.failed, SizeIs(1));
  // A grant that holds nothing brings everything, from the units that are still pinned.
  hand_over_again(holding(0, 0, 78));
  EXPECT_THAT(pair.verified, SizeIs(1));
  EXPECT_THAT(pair.accepted, SizeIs(1));
}

TEST_F(HeldUnits, AreNotTakenASecondTime) {
  pair.open(holding(2, 1));
  pair.send_target(HandoffPair::grant());
  pair.run();
  EXPECT_THAT(pair.units_refused, testing::Contains(Reason::duplicate));
  for (const UnitPlace& place : pair.written) EXPECT_NE(std::get<3>(place), 5);
}

TEST_F(HeldUnits, AreReadOnceAndNotAtAllWhenTheyWereReceived) {
  hand_over(holding(2, 0));
  EXPECT_THAT(pair.digested, ElementsAre(5));
  // Units 0 and 1 fill block 5, which was held; of the window only a part of block 7 came.
  hand_over_again(holding(2, 0, 78));
  EXPECT_THAT(pair.digested, ElementsAre(5));
  HandoffPair cold;
  cold.open_grant();
  cold.compute();
  cold.send_target();
  cold.send_commit();
  cold.run();
  ASSERT_THAT(cold.verified, SizeIs(1));
  cold.open(holding(2, 0, 78));
  EXPECT_THAT(cold.digested, IsEmpty());
  cold.open(holding(2, 1, 79));
  EXPECT_THAT(cold.digested, ElementsAre(7));
}

TEST_F(HeldUnits, AreDigestedBlockByBlockAndTheCommitWaitsForThem) {
  hand_over_undigested(holding(2, 1));
  EXPECT_THAT(pair.verified, IsEmpty());
  EXPECT_TRUE(pair.digest_next());
  pair.run();
  EXPECT_THAT(pair.verified, IsEmpty());
  EXPECT_TRUE(pair.digest_next());
  pair.run();
  EXPECT_THAT(pair.verified, SizeIs(1));
  EXPECT_FALSE(pair.digest_next());
}

TEST_F(HeldUnits, ThatAreNotReadInTimeAreNotSaidToHaveNotArrived) {
  hand_over_undigested(holding(2, 1));
  pair.receiver.tick(pair.now + std::chrono::seconds(60));
  for (const ReceiverEffect& effect : pair.receiver.take_effects()) {
    const auto* refused = std::get_if<RefuseCommit>(&effect);
    ASSERT_NE(refused, nullptr);
    EXPECT_EQ(refused->message.reason, Reason::missing_units);
    EXPECT_THAT(refused->message.message, testing::HasSubstr("held here"));
    return;
  }
  FAIL() << "the commit waits for ever";
}

TEST_F(HeldUnits, AreDigestedOnceForAllGrantsThatHoldThem) {
  for (const std::uint64_t id : {77, 78}) {
    pair.receiver.open(pair.key, holding(2, 0, id), HandoffPair::target_blocks());
  }
  while (pair.digest_next()) {
  }
  EXPECT_THAT(pair.digested, ElementsAre(5));
}

TEST_F(HeldUnits, OfAClosedGrantAreNotRead) {
  pair.receiver.open(pair.key, holding(2, 1), HandoffPair::target_blocks());
  pair.receiver.close(77);
  EXPECT_FALSE(pair.digest_next());
}

TEST_F(HeldUnits, DigestsOfAnEarlierLifeOfABlockAreNotUsed) {
  hand_over(holding(2, 0));
  protocol::Grant later = holding(2, 0, 78);
  later.groups[0].slots[0].generation += 1;
  pair.open(later);
  EXPECT_THAT(pair.digested, ElementsAre(5, 5));
}

}  // namespace
}  // namespace baton::handoff
