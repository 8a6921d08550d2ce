// Two transport threads hand caches over, on every transport of one process.
#include "driver_fixture.h"

namespace baton::handoff {
namespace {

TEST_P(DriverTest, ACacheArrivesWholeAndBothSidesLetGo) {
  start();
  whole(10);
  ASSERT_TRUE(decode->wait_for([](const auto& s) { return s.verified.size() == 1; }));
  EXPECT_TRUE(arrived());
  EXPECT_THAT(decode->seen().verified[0].commit.tokens.ids, testing::ElementsAre(7));
  ASSERT_TRUE(
      prefill->driver().post(PairMessage{link_id, protocol::Accepted{key}, monotonic_now()}));
  ASSERT_TRUE(prefill->wait_for([](const auto& s) { return s.idle.size() == 1; }));
  const SourceAccepted accepted = prefill->seen().accepted.at(0);
  EXPECT_EQ(accepted.facts.transport, GetParam());
  EXPECT_EQ(accepted.facts.units, 2 * arena_layers * units);
  decode->command(CloseGrant{10});
  EXPECT_TRUE(decode->wait_for([](const auto& s) { return s.closed.size() == 1; }));
}

TEST_P(DriverTest, ACacheArrivesChunkByChunkOfItsPrompt) {
  start();
  begin();
  open(10);
  target(10);
  for (const std::int64_t positions : {20, 40, 65, 70}) {  // units 0, 1, 2 and 3, the partial one
    for (std::uint32_t each = 0; each < arena_layers; ++each) layer(each, positions);
  }
  commit();
  ASSERT_TRUE(decode->wait_for([](const auto& s) { return s.verified.size() == 1; }));
  EXPECT_TRUE(arrived());
  expect_all_let_go(10);
}

TEST_P(DriverTest, BytesAreCountedOnBothSides) {
  start();
  whole(10);
  ASSERT_TRUE(decode->wait_for([](const auto& s) { return s.verified.size() == 1; }));
  expect_all_let_go(10);
  const std::uint64_t bytes = 2ULL * arena_layers * units * decode->unit_bytes();
  EXPECT_EQ(decode->seen().received_bytes, bytes);
  EXPECT_TRUE(prefill->wait_for([&](const auto& s) { return s.sent_bytes == bytes; }));
  EXPECT_EQ(prefill->seen().received_bytes + decode->seen().sent_bytes, 0U);
}

/// The first two blocks of the target hold what the source has.
class HeldByTarget : public DriverTest {
 protected:
  void hand_over(bool is_right) {
    start();
    begin();
    for (int layer = 0; layer < arena_layers; ++layer) {
      for (tensor::KvPart part : {tensor::KvPart::k, tensor::KvPart::v}) {
        for (int i = 0; i < held; ++i) {
          const auto index = static_cast<std::size_t>(i / block_units);
          std::memcpy(decode->unit(layer, part, target_blocks[index], i % block_units),
                      prefill->unit(layer, part, source_blocks[index], i % block_units),
                      decode->unit_bytes());
        }
      }
    }
    if (!is_right) *decode->unit(1, tensor::KvPart::v, target_blocks[1], 0) ^= std::byte{1};
    protocol::Grant granted = grant(10);
    granted.groups[0].held_units = held;
    decode->command(OpenGrant{key, granted, {{block_units, 0, target_blocks}}});
    prefill->command(SetTarget{source, key, NodeId("d"), decode_epoch, granted});
    layer(0);
    layer(1);
    commit();
  }
  static constexpr int held = 4;
};

TEST_P(HeldByTarget, IsProvedByTheCommitAndNotSent) {
  hand_over(true);
  ASSERT_TRUE(decode->wait_for([](const auto& s) { return s.verified.size() == 1; }));
  EXPECT_TRUE(arrived());
  EXPECT_EQ(decode->seen().received_bytes,
            2ULL * arena_layers * (units - held) * decode->unit_bytes());
  expect_all_let_go(10);
}

TEST_P(HeldByTarget, WhatIsWrongInMemoryIsFound) {  // P2
  hand_over(false);
  ASSERT_TRUE(prefill->wait_for([](const auto& s) { return s.failed.size() == 1; }));
  EXPECT_EQ(prefill->seen().failed[0].reason, Reason::held_units_differ);
  EXPECT_THAT(decode->seen().differ, testing::ElementsAre(10));
  EXPECT_THAT(decode->seen().refused_commits, testing::ElementsAre(Reason::held_units_differ));
  EXPECT_TRUE(decode->seen().verified.empty());
  expect_all_let_go(10);
}

TEST_P(DriverTest, UnitsThatWereReadyBeforeTheTargetAreSentToo) {
  start();
  begin();
  layer(0);
  layer(1);
  commit();
  open(10);
  target(10);
  ASSERT_TRUE(decode->wait_for([](const auto& s) { return s.verified.size() == 1; }));
  EXPECT_TRUE(arrived());
  expect_all_let_go(10);
}

TEST_P(DriverTest, ACancelMidwayVerifiesNothingAndFreesBothSides) {
  start();
  begin();
  open(10);
  target(10);
  layer(0);
  expect_all_let_go(10);
  EXPECT_TRUE(decode->seen().verified.empty());
  EXPECT_TRUE(prefill->seen().accepted.empty());
}

TEST_P(DriverTest, UnitsForNoOpenGrantAreRefused) {
  start();
  begin();
  target(10);
  layer(0);
  ASSERT_TRUE(prefill->wait_for([](const auto& s) { return s.failed.size() == 1; }));
  EXPECT_EQ(prefill->seen().failed[0].reason, Reason::transport_failed);
  // At once: a refusal is counted before its sender learns of it.
  EXPECT_THAT(decode->seen().refused_units, testing::Contains(Reason::unknown_request));
}

TEST_P(DriverTest, ADroppedLinkFailsTheHandoffAndANewTargetRepairsIt) {
  start();
  begin();
  open(10);
  target(10);
  layer(0);
  ASSERT_TRUE(decode->wait_for([](const auto& s) { return s.received_bytes > 0; }));
  prefill->driver().post(DropLink{link_id});
  ASSERT_TRUE(decode->wait_for([](const auto& s) { return s.lost.size() == 1; }));
  layer(1);
  commit();
  decode->command(CloseGrant{10});
  EXPECT_TRUE(decode->wait_for([](const auto& s) { return s.closed.size() == 1; }));
  connect();
  key.attempt.decode_leg = 2;
  open(11);
  target(11);
  ASSERT_TRUE(decode->wait_for([](const auto& s) { return s.verified.size() == 1; }));
  EXPECT_TRUE(arrived());
  expect_all_let_go(11);
}

TEST_P(DriverTest, FlippedPayloadsAreNeverVerified) {
  transport::FaultPolicy flips;
  flips.flip_payload = 1;
  start({}, flips);
  whole(10);
  ASSERT_TRUE(prefill->wait_for([](const auto& s) { return s.failed.size() == 1; }));
  EXPECT_EQ(prefill->seen().failed[0].reason, Reason::digest_mismatch);
  // Once with the bad units, then for good.
  EXPECT_TRUE(decode->wait_for([](const auto& s) { return s.refused_commits.size() == 2; }));
  EXPECT_TRUE(decode->seen().verified.empty());
  expect_all_let_go(10);
}

TEST_P(DriverTest, WhatAFewFlipsSpoiledIsSentAgain) {
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    transport::FaultPolicy flips;
    flips.flip_payload = 0.3;
    flips.seed = seed;
    start({}, flips);
    whole(10);
    const auto ended = [&] { return !prefill->seen().failed.empty(); };
    ASSERT_TRUE(decode->wait_for(
        [&](const auto& s) { return s.verified.size() == 1 || s.refused_commits.size() == 2; }));
    if (!decode->seen().verified.empty()) {
      EXPECT_TRUE(arrived());
      EXPECT_FALSE(ended());
    }
    expect_all_let_go(10);
    prefill->stop();
    decode->stop();
  }
}

TEST_P(DriverTest, ATransportWithoutRoomDelaysAndLosesNothing) {  // HNG-25
  transport::FaultPolicy tight;
  tight.no_space_every = 2;
  start(tight);
  whole(10);
  ASSERT_TRUE(decode->wait_for([](const auto& s) { return s.verified.size() == 1; }));
  EXPECT_TRUE(arrived());
  expect_all_let_go(10);
}

TEST_P(DriverTest, AFloodOfAPeersMessagesIsRefusedAtABoundAndOursAreNot) {
  decode = std::make_unique<DriverSide>(make({}), decode_epoch, false);
  std::size_t taken = 0;
  while (taken < 1'000'000 &&
         decode->driver().post(PairMessage{link_id, protocol::Accepted{key}, monotonic_now()})) {
    ++taken;
  }
  EXPECT_EQ(taken, 16'384U);
  open(10);
  decode->driver().start();
  decode->command(CloseGrant{10});
  EXPECT_TRUE(decode->wait_for([](const auto& s) { return s.closed.size() == 1; }));
  EXPECT_TRUE(
      decode->driver().post(PairMessage{link_id, protocol::Accepted{key}, monotonic_now()}));
}

TEST_P(DriverTest, ADriverThatIsBehindTakesNoNewLinkButEveryEnd) {
  decode = std::make_unique<DriverSide>(make({}), decode_epoch, false);
  Driver& driver = decode->driver();
  EXPECT_TRUE(driver.post(ExpectLink{link_id, decode->transport(), {1, 2}, {3, 4}}));
  std::size_t posted = 1;
  for (; !driver.is_behind(); ++posted) decode->command(CloseGrant{posted});
  EXPECT_EQ(posted, behind_at);
  EXPECT_FALSE(driver.post(ExpectLink{LinkId(9), decode->transport(), {5, 6}, {7, 8}}));
  driver.post(DropLink{link_id});
  open(10);
  decode->command(CloseGrant{10});
  driver.start();
  EXPECT_TRUE(decode->wait_for([](const auto& s) { return s.closed.size() == 1; }));
  EXPECT_FALSE(driver.is_behind());
  EXPECT_THAT(decode->seen().expected, testing::ElementsAre(link_id));
}

INSTANTIATE_TEST_SUITE_P(Transports, DriverTest, testing::Values("loopback", "shm"),
                         [](const auto& each) { return std::string(each.param); });
INSTANTIATE_TEST_SUITE_P(Transports, HeldByTarget, testing::Values("loopback", "shm"),
                         [](const auto& each) { return std::string(each.param); });

}  // namespace
}  // namespace baton::handoff
