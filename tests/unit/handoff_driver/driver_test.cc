// Two transport threads hand caches over, on every transport of one process.
#include <gmock/gmock.h>

#include "baton/transport/factory/factory.h"
#include "baton/transport/fault/fault.h"

#include "driver_side.h"

namespace baton::handoff {
namespace {

constexpr std::int64_t length = 70;  // four full units and a partial one, in three blocks
constexpr int units = 5;
const std::vector<std::int32_t> source_blocks = {0, 1, 2};
const std::vector<std::int32_t> target_blocks = {6, 3, 4};
const LinkId link_id(1);
const Epoch decode_epoch(77);

class DriverTest : public testing::TestWithParam<const char*> {
 protected:
  ~DriverTest() override {
    if (prefill) prefill->stop();
    if (decode) decode->stop();
  }

  static std::unique_ptr<transport::Transport> make(const transport::FaultPolicy& policy) {
    transport::Options options;
    options.bind_address = "127.0.0.1:0";
    auto made = transport::make_transport(GetParam(), options);
    EXPECT_TRUE(made.has_value());
    return std::make_unique<transport::FaultTransport>(std::move(*made), policy);
  }
  void start(const transport::FaultPolicy& at_prefill = {},
             const transport::FaultPolicy& at_decode = {}) {
    prefill = std::make_unique<DriverSide>(make(at_prefill), Epoch(66));
    decode = std::make_unique<DriverSide>(make(at_decode), decode_epoch);
    connections_ = 0;
    forward(*prefill, *decode);
    forward(*decode, *prefill);
    connect();
  }
  static void forward(DriverSide& from, DriverSide& to) {
    from.pair_with([&to](LinkId link, protocol::Message message) {
      EXPECT_TRUE(to.driver().post(PairMessage{link, std::move(message), monotonic_now()}));
    });
  }
  void connect() {
    const RequestId token{1, 2};
    const RequestId secret{3, 4};
    decode->driver().post(ControlCommand(ExpectLink{link_id, decode->transport(), token, secret}));
    const std::size_t connections = ++connections_;
    ASSERT_TRUE(decode->wait_for([&](const auto& s) { return s.expected.size() == connections; }));
    protocol::DataLink data;
    data.transport = decode->transport();
    data.address = decode->driver().addresses()[0].second;
    data.token = token;
    data.secret = secret;
    prefill->driver().post(ControlCommand(ConnectLink{link_id, NodeId("d"), decode_epoch, data}));
  }

  /// Every unit of the source has other bytes.
  void fill() {
    for (int layer = 0; layer < arena_layers; ++layer) {
      for (tensor::KvPart part : {tensor::KvPart::k, tensor::KvPart::v}) {
        for (int i = 0; i < units; ++i) {
          std::byte* at =
              prefill->unit(layer, part, source_blocks[i / block_units], i % block_units);
          for (std::size_t b = 0; b < prefill->unit_bytes(); ++b) {
            at[b] = static_cast<std::byte>(b * 31 + static_cast<std::size_t>(i) * 7 +
                                           static_cast<std::size_t>(layer) * 3 +
                                           static_cast<std::size_t>(part) * 101);
          }
        }
      }
    }
  }
  bool arrived() {
    for (int layer = 0; layer < arena_layers; ++layer) {
      for (tensor::KvPart part : {tensor::KvPart::k, tensor::KvPart::v}) {
        for (int i = 0; i < units; ++i) {
          const auto index = static_cast<std::size_t>(i / block_units);
          const std::byte* from = prefill->unit(layer, part, source_blocks[index], i % block_units);
          const std::byte* to = decode->unit(layer, part, target_blocks[index], i % block_units);
          if (std::memcmp(from, to, prefill->unit_bytes()) != 0) return false;
        }
      }
    }
    return true;
  }

  void begin() {
    fill();
    prefill->command(
        BeginSource{source, key, length, {{block_units, 0, source_blocks}}, monotonic_now()});
  }
  void layer(std::uint32_t index) {
    prefill->command(LayerReady{source, index, length, monotonic_now()});
  }
  void commit() {
    CommitSource each;
    each.source = source;
    each.tokens.ids = {7};
    each.sampled_at = monotonic_now();
    prefill->command(std::move(each));
  }
  protocol::Grant grant(std::uint64_t id) const {
    return {id, length, {{0, block_units, 0, {{6, 1, 9}, {3, 2, 9}}}}};
  }
  void open(std::uint64_t id) {
    decode->command(OpenGrant{key, grant(id), {{block_units, 0, target_blocks}}});
  }
  void target(std::uint64_t id) {
    prefill->command(SetTarget{source, key, NodeId("d"), decode_epoch, grant(id)});
  }
  void whole(std::uint64_t id) {
    begin();
    open(id);
    target(id);
    layer(0);
    layer(1);
    commit();
  }
  /// Both sides give everything back.
  void expect_all_let_go(std::uint64_t id) {
    prefill->command(AbortSource{source});
    decode->command(CloseGrant{id});
    EXPECT_TRUE(prefill->wait_for([&](const auto& s) { return s.idle.size() == 1; }));
    EXPECT_TRUE(decode->wait_for([&](const auto& s) {
      return std::find(s.closed.begin(), s.closed.end(), id) != s.closed.end();
    }));
  }

  std::unique_ptr<DriverSide> prefill;
  std::unique_ptr<DriverSide> decode;
  protocol::AttemptKey key{{1, 1}, {1, 1}};
  SourceId source{5};

 private:
  std::size_t connections_ = 0;
};

TEST_P(DriverTest, ACacheArrivesWholeAndBothSidesLetGo) {
  start();
  whole(10);
  ASSERT_TRUE(decode->wait_for([](const auto& s) { return s.verified.size() == 1; }));
  EXPECT_TRUE(arrived());
  EXPECT_THAT(decode->seen().verified[0].commit.tokens.ids, testing::ElementsAre(7));
  ASSERT_TRUE(prefill->driver().post(PairMessage{link_id, protocol::Accepted{key}, monotonic_now()}));
  ASSERT_TRUE(prefill->wait_for([](const auto& s) { return s.idle.size() == 1; }));
  const SourceAccepted accepted = prefill->seen().accepted.at(0);
  EXPECT_EQ(accepted.facts.transport, GetParam());
  EXPECT_EQ(accepted.facts.units, 2 * arena_layers * units);
  decode->command(CloseGrant{10});
  EXPECT_TRUE(decode->wait_for([](const auto& s) { return s.closed.size() == 1; }));
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
  prefill->driver().post(ControlCommand(DropLink{link_id}));
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
  EXPECT_TRUE(decode->driver().post(PairMessage{link_id, protocol::Accepted{key}, monotonic_now()}));
}

INSTANTIATE_TEST_SUITE_P(Transports, DriverTest, testing::Values("loopback", "shm"),
                         [](const auto& each) { return std::string(each.param); });

}  // namespace
}  // namespace baton::handoff
