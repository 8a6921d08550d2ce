// Refusal, cancel and close in every state: each Done once, and memory that is not ours to touch
// stays as it was.
#include <atomic>
#include <thread>

#include "support/node.h"
#include "support/param.h"

namespace baton::transport::test {
namespace {

constexpr std::size_t large = std::size_t{3} << 20;

class Cancel : public EveryTransport {
 protected:
  static std::vector<Extent> source(Pair& pair) {
    const std::vector from = {pair.sender.extent(0, large / 2),
                              pair.sender.extent(large / 2 + 100, large / 2)};
    fill(from, 42);
    return from;
  }
  static void expect_a_good_transfer(Pair& pair) {
    const SendId id(99'999);
    const std::vector from = {pair.sender.extent(0, 70'000)};
    const std::vector to = {pair.receiver.extent(large, 70'000)};
    fill(from, 77);
    pair.receiver.offers.clear();
    ASSERT_TRUE(pair.sender->send(id, pair.to_receiver, {}, from).has_value());
    const Offered offered = pair.next_offer();
    pair.receiver->accept(offered.offer, to);
    ASSERT_TRUE(
        pair.pump([&] { return pair.sender.sent(id) && pair.receiver.received(offered.offer); }));
    EXPECT_EQ(pair.receiver.received(offered.offer), Status::ok);
    EXPECT_TRUE(matches(to, 77, 70'000));
  }
};
BATON_EVERY_TRANSPORT(Cancel);

TEST_P(Cancel, ARefusedOfferEndsTheSendAndTouchesNoMemory) {
  Pair pair(GetParam());
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{100}, large}) {
    const SendId id(bytes + 1);
    const std::vector from = {pair.sender.extent(0, bytes)};
    ASSERT_TRUE(pair.sender->send(id, pair.to_receiver, {}, from).has_value());
    const Offered offered = pair.next_offer();
    pair.receiver->refuse(offered.offer);
    ASSERT_TRUE(pair.pump([&] { return pair.sender.sent(id).has_value(); }));
    EXPECT_EQ(pair.sender.sent(id), Status::refused);
  }
  EXPECT_TRUE(pair.receiver.receive_dones.empty());
  EXPECT_TRUE(untouched(pair.receiver.arena.span()));
  expect_a_good_transfer(pair);
}

TEST_P(Cancel, ASendCancelledBeforeItWasAcceptedTouchesNoMemory) {
  Pair pair(GetParam());
  ASSERT_TRUE(pair.sender->send(SendId(1), pair.to_receiver, {}, source(pair)).has_value());
  const Offered offered = pair.next_offer();
  pair.sender->cancel_send(SendId(1));
  pair.sender->cancel_send(SendId(1));
  ASSERT_TRUE(pair.pump([&] { return pair.sender.sent(SendId(1)).has_value(); }));
  EXPECT_EQ(pair.sender.sent(SendId(1)), Status::cancelled);
  pair.pump([] { return false; }, 5ms);
  pair.receiver->accept(offered.offer, std::vector{pair.receiver.extent(0, large)});
  ASSERT_TRUE(pair.pump([&] { return pair.receiver.received(offered.offer).has_value(); }));
  EXPECT_EQ(pair.receiver.received(offered.offer), Status::cancelled);
  EXPECT_TRUE(untouched(pair.receiver.arena.span()));
  expect_a_good_transfer(pair);
}

TEST_P(Cancel, ACancelAndAnAcceptThatCrossEndOnceOnBothSides) {
  for (const bool cancel_first : {false, true}) {
    Pair pair(GetParam());
    const std::vector to = {pair.receiver.extent(0, large)};
    ASSERT_TRUE(pair.sender->send(SendId(1), pair.to_receiver, {}, source(pair)).has_value());
    const Offered offered = pair.next_offer();
    if (cancel_first) pair.sender->cancel_send(SendId(1));
    pair.receiver->accept(offered.offer, to);
    if (!cancel_first) pair.sender->cancel_send(SendId(1));
    ASSERT_TRUE(pair.pump(
        [&] { return pair.sender.sent(SendId(1)) && pair.receiver.received(offered.offer); }));
    if (pair.receiver.received(offered.offer) == Status::ok) {
      EXPECT_TRUE(matches(to, 42, large));
    } else {
      EXPECT_EQ(pair.receiver.received(offered.offer), Status::cancelled);
    }
    expect_a_good_transfer(pair);
  }
}

TEST_P(Cancel, ACancelledSendIsReusableAtItsDoneAndNeverReceivedTorn) {
  Pair pair(GetParam());
  for (std::uint64_t round = 0; round < 30; ++round) {
    const auto from = source(pair);
    const std::vector to = {pair.receiver.extent(0, large)};
    ASSERT_TRUE(pair.sender->send(SendId(round), pair.to_receiver, {}, from).has_value());
    const Offered offered = pair.next_offer();
    pair.receiver->accept(offered.offer, to);
    for (std::uint64_t i = 0; i < round; ++i) pair.receiver.poll(), pair.sender.poll();
    pair.sender->cancel_send(SendId(round));
    ASSERT_TRUE(pump({&pair.sender, &pair.receiver},
                     [&] { return pair.sender.sent(SendId(round)).has_value(); }));
    fill(from, 1000 + round);
    ASSERT_TRUE(pair.pump([&] { return pair.receiver.received(offered.offer).has_value(); }));
    if (pair.receiver.received(offered.offer) == Status::ok) {
      EXPECT_TRUE(matches(to, 42, large)) << "torn";
    }
  }
}

/// The sender cancels while the receiver may be copying, and scribbles over its memory at once.
TEST_P(Cancel, ACancelThatRacesWithACopyNeverDeliversATornPayload) {
  constexpr std::uint64_t rounds = 120;
  Pair pair(GetParam());
  std::atomic<bool> stop = false;
  std::atomic<bool> accepted = false;
  std::thread sending([&] {
    const SetAtEnd ended(stop);
    for (std::uint64_t round = 0; round < rounds; ++round) {
      const auto from = source(pair);
      accepted = false;
      ASSERT_TRUE(pair.sender->send(SendId(round), pair.to_receiver, {}, from).has_value());
      const Instant until = monotonic_now() + test_patience;
      while (!accepted && monotonic_now() < until) pair.sender.poll();
      const Instant cancel_at = monotonic_now() + std::chrono::microseconds(5 * (round % 60));
      while (monotonic_now() < cancel_at) pair.sender.poll();
      pair.sender->cancel_send(SendId(round));
      while (!pair.sender.sent(SendId(round)) && monotonic_now() < until) pair.sender.poll(1ms);
      ASSERT_TRUE(pair.sender.sent(SendId(round)).has_value());
      // The end first: a copy in progress has yet to come there.
      std::fill_n(from[1].data, from[1].bytes, guard);
      std::fill_n(from[0].data, from[0].bytes, guard);
    }
  });
  const std::vector to = {pair.receiver.extent(0, large)};
  while (!stop) {
    pair.receiver.poll(1ms);
    for (const auto& [offer, status] : std::exchange(pair.receiver.receive_dones, {})) {
      if (status == Status::ok) {
        EXPECT_TRUE(matches(to, 42, large)) << "torn";
      }
    }
    for (; !pair.receiver.offers.empty(); pair.receiver.offers.pop_front()) {
      pair.receiver->accept(pair.receiver.offers.front().offer, to);
      accepted = true;
    }
  }
  sending.join();
}

TEST_P(Cancel, ACancelledReceiveLeavesItsMemoryAloneAfterItsDone) {
  Pair pair(GetParam());
  for (std::uint64_t round = 0; round < 20; ++round) {
    ASSERT_TRUE(pair.sender->send(SendId(round), pair.to_receiver, {}, source(pair)).has_value());
    const Offered offered = pair.next_offer();
    pair.receiver->accept(offered.offer, std::vector{pair.receiver.extent(0, large)});
    for (std::uint64_t i = 0; i < round; ++i) pair.sender.poll(), pair.receiver.poll();
    pair.receiver->cancel_receive(offered.offer);
    pair.receiver->cancel_receive(offered.offer);
    ASSERT_TRUE(pair.pump([&] { return pair.receiver.received(offered.offer).has_value(); }));
    const Status status = *pair.receiver.received(offered.offer);
    EXPECT_TRUE(status == Status::cancelled || status == Status::ok);
    std::fill(pair.receiver.arena.span().begin(), pair.receiver.arena.span().end(), guard);
    ASSERT_TRUE(pair.pump([&] { return pair.sender.sent(SendId(round)).has_value(); }));
    EXPECT_EQ(pair.sender.sent(SendId(round)), status);
    EXPECT_TRUE(untouched(pair.receiver.arena.span())) << "written after its ReceiveDone";
  }
  expect_a_good_transfer(pair);
}

TEST_P(Cancel, CancellingWhatDoesNotExistOrHasEndedDoesNothing) {
  Pair pair(GetParam());
  ASSERT_TRUE(pair.sender->send(SendId(1), pair.to_receiver, {}, source(pair)).has_value());
  const Offered offered = pair.next_offer();
  pair.receiver->cancel_receive(offered.offer);  // not accepted yet
  pair.receiver->cancel_receive(OfferId(999));
  pair.receiver->refuse(OfferId(999));
  pair.sender->cancel_send(SendId(999));
  pair.receiver->accept(offered.offer, std::vector{pair.receiver.extent(0, large)});
  ASSERT_TRUE(pair.pump(
      [&] { return pair.sender.sent(SendId(1)) && pair.receiver.received(offered.offer); }));
  EXPECT_EQ(pair.sender.sent(SendId(1)), Status::ok);
  pair.sender->cancel_send(SendId(1));
  pair.receiver->cancel_receive(offered.offer);
  pair.pump([] { return false; }, 5ms);
  EXPECT_EQ(pair.sender.send_dones.size(), 1u);
  EXPECT_EQ(pair.receiver.receive_dones.size(), 1u);
  expect_a_good_transfer(pair);
}

class Close : public testing::TestWithParam<std::tuple<std::string, bool>> {};
INSTANTIATE_TEST_SUITE_P(All, Close,
                         testing::Combine(testing::Values("loopback", "shm", "ucx"),
                                          testing::Bool()),
                         [](const auto& param_info) {
                           return std::get<0>(param_info.param) +
                                  (std::get<1>(param_info.param) ? "_by_sender" : "_by_receiver");
                         });

/// One send of each state (pending, accepted, cancelled, with and without rendezvous) is open.
TEST_P(Close, WithOpenOperationsEveryDoneComesOnceAndBeforePeerDown) {
  const auto& [name, by_sender] = GetParam();
  Pair pair(name);
  const std::vector from = {pair.sender.extent(0, large)};
  fill(from, 1);
  for (std::uint64_t i = 1; i <= 6; ++i) {
    const std::vector part = {pair.sender.extent(0, i % 2 == 0 ? 500 : large)};
    ASSERT_TRUE(pair.sender->send(SendId(i), pair.to_receiver, {}, part).has_value());
  }
  std::vector<OfferId> offers;
  for (int i = 0; i < 6; ++i) offers.push_back(pair.next_offer().offer);
  pair.receiver->accept(offers[2], std::vector{pair.receiver.extent(0, large)});
  pair.receiver->accept(offers[3], std::vector{pair.receiver.extent(large, 500)});
  pair.sender->cancel_send(SendId(5));
  pair.sender->cancel_send(SendId(6));
  Node& closer = by_sender ? pair.sender : pair.receiver;
  closer->close(by_sender ? pair.to_receiver : pair.to_sender);
  ASSERT_TRUE(pair.pump([&] {
    return pair.sender.is_down(pair.to_receiver) && pair.receiver.is_down(pair.to_sender);
  }));
  EXPECT_EQ(pair.sender.dones_at_down.at(pair.to_receiver).first, 6u);
  EXPECT_EQ(pair.receiver.dones_at_down.at(pair.to_sender).second, 2u);
  for (const auto& [offer, status] : pair.receiver.receive_dones) {
    EXPECT_TRUE(status == Status::ok || status == Status::cancelled || status == Status::peer_lost);
  }
  // An offer of the past still ends when accepted, in nothing received.
  pair.receiver->accept(offers[0], std::vector{pair.receiver.extent(0, large)});
  ASSERT_TRUE(pair.pump([&] { return pair.receiver.received(offers[0]).has_value(); }));
  EXPECT_EQ(pair.receiver.received(offers[0]), Status::cancelled);
  pair.receiver->refuse(offers[1]);
}

}  // namespace
}  // namespace baton::transport::test
