// Who gets in, who is turned away, how connections end, how poll() sleeps.
#include <atomic>
#include <ctime>
#include <thread>

#include <poll.h>

#include "support/node.h"
#include "support/param.h"

namespace baton::transport::test {
namespace {

class Connecting : public EveryTransport {};
BATON_EVERY_TRANSPORT(Connecting);

TEST_P(Connecting, AnUnknownTokenIsTurnedAwayAndOthersGoOn) {
  Pair pair(GetParam());
  Node stranger(GetParam());
  pair.receiver->expect(random_token());  // another one
  const PeerId peer = stranger->connect(pair.receiver->address(), random_token()).value();
  ASSERT_TRUE(pump({&stranger, &pair.receiver}, [&] { return stranger.is_down(peer); }));
  EXPECT_FALSE(stranger.is_up(peer));
  EXPECT_EQ(pair.receiver.ups.size(), 1u);
  EXPECT_TRUE(pair.receiver.downs.empty());
  ASSERT_TRUE(pair.sender->send(SendId(1), pair.to_receiver, bytes_of("good"), {}).has_value());
  EXPECT_EQ(pair.next_offer().header, bytes_of("good"));
}

TEST_P(Connecting, ATokenIsGoodForOneConnection) {
  Node first(GetParam());
  Node second(GetParam());
  Node target(GetParam());
  const PairToken token = random_token();
  const PeerId expected = target->expect(token);
  const PeerId one = first->connect(target->address(), token).value();
  ASSERT_TRUE(pump({&first, &target}, [&] { return first.is_up(one) && target.is_up(expected); }));
  const PeerId two = second->connect(target->address(), token).value();
  EXPECT_TRUE(pump({&second, &target, &first}, [&] { return second.is_down(two); }));
  EXPECT_FALSE(first.is_down(one));
}

TEST_P(Connecting, ADeadAddressIsPeerDownWithinTheDeadlineRST08) {
  Options options;
  options.connect_deadline = 10s;
  Node node(GetParam(), options);
  std::string dead;
  {
    Node other(GetParam());
    dead = other->address();
  }
  const Instant start = monotonic_now();
  const PeerId peer = node->connect(dead, random_token()).value();
  EXPECT_LT(monotonic_now() - start, options.connect_deadline) << "connect() waits";
  ASSERT_TRUE(pump({&node}, [&] { return node.is_down(peer); }));
  EXPECT_EQ(node.downs.at(peer).reason(), Reason::transport_failed);
  EXPECT_TRUE(node->send(SendId(1), peer, {}, {}).has_error());
}

TEST_P(Connecting, AnAddressOfAnotherKindIsRefusedAtOnce) {
  Node node(GetParam());
  if (GetParam() == "loopback") {
    const PeerId peer = node->connect("nonsense", random_token()).value();
    EXPECT_TRUE(pump({&node}, [&] { return node.is_down(peer); }));
    return;
  }
  for (const char* address : {"", "nonsense", "shm:", "ucx:", "ucx:127.0.0.1", "ucx:name:1",
                              "ucx:127.0.0.1:70000", "shm:a:b:c"}) {
    EXPECT_TRUE(node->connect(address, random_token()).has_error()) << address;
  }
}

TEST_P(Connecting, CloseEndsBothSidesAndTheAddressStaysGood) {
  Pair pair(GetParam());
  pair.sender->close(pair.to_receiver);
  EXPECT_TRUE(pair.sender->send(SendId(1), pair.to_receiver, {}, {}).has_error());
  ASSERT_TRUE(pair.pump([&] {
    return pair.sender.is_down(pair.to_receiver) && pair.receiver.is_down(pair.to_sender);
  }));
  EXPECT_EQ(pair.sender.downs.at(pair.to_receiver).reason(), Reason::cancelled);
  EXPECT_EQ(pair.receiver.downs.at(pair.to_sender).reason(), Reason::transport_failed);
  connect(pair.sender, pair.receiver);
}

TEST_P(Connecting, AnExpectedPeerThatNeverCameCanBeClosed) {
  Node node(GetParam());
  const PeerId peer = node->expect(random_token());
  node->close(peer);
  node->close(PeerId(12345));
  EXPECT_TRUE(pump({&node}, [&] { return node.is_down(peer); }));
}

TEST_P(Connecting, DestructionOfOneSideIsPeerDownAtTheOther) {
  Pair pair(GetParam());
  const std::vector from = {pair.sender.extent(0, 100'000)};
  ASSERT_TRUE(pair.sender->send(SendId(1), pair.to_receiver, {}, from).has_value());
  pair.next_offer();
  pair.receiver.destroy_transport();
  ASSERT_TRUE(pump({&pair.sender}, [&] { return pair.sender.is_down(pair.to_receiver); }));
  EXPECT_EQ(pair.sender.sent(SendId(1)), Status::peer_lost);
}

TEST_P(Connecting, ANewInstanceTakesThePlaceOfALostOneRST01) {
  Node sender(GetParam());
  for (std::uint64_t round = 0; round < 3; ++round) {
    Node receiver(GetParam());
    const PeerId peer = connect(sender, receiver).first;
    const std::vector from = {sender.extent(0, 50'000)};
    fill(from, round);
    ASSERT_TRUE(sender->send(SendId(2 * round), peer, {}, from).has_value());
    ASSERT_TRUE(pump({&sender, &receiver}, [&] { return !receiver.offers.empty(); }));
    const std::vector to = {receiver.extent(0, 50'000)};
    receiver->accept(receiver.offers.front().offer, to);
    ASSERT_TRUE(
        pump({&sender, &receiver}, [&] { return sender.sent(SendId(2 * round)).has_value(); }));
    EXPECT_TRUE(matches(to, round, 50'000));
    ASSERT_TRUE(sender->send(SendId(2 * round + 1), peer, {}, from).has_value());
    receiver.destroy_transport();
    ASSERT_TRUE(pump({&sender}, [&] { return sender.is_down(peer); }));
    EXPECT_EQ(sender.sent(SendId(2 * round + 1)), Status::peer_lost);
  }
}

TEST_P(Connecting, WakeFromAnotherThreadEndsASleepingPoll) {
  Node node(GetParam());
  for (int round = 0; round < 20; ++round) {
    std::thread other([&] {
      // Both before and during the sleep.
      if (round % 2 == 0) std::this_thread::sleep_for(2ms);
      node->wake();
    });
    const Instant start = monotonic_now();
    node.poll(20s);
    EXPECT_LT(monotonic_now() - start, 10s);
    other.join();
  }
}

/// A poll may end early while a connection still settles (that takes several steps of both sides)
/// and late on a busy machine: one of many is as it should be.
TEST_P(Connecting, PollSleepsForItsTimeAndNotLonger) {
  Pair pair(GetParam());
  constexpr Duration asked = 100ms;
  const auto sleeps_as_asked = [&] {
    pair.receiver.poll();
    const Instant start = monotonic_now();
    const std::clock_t processor = std::clock();
    pair.sender.poll(asked);
    const Duration took = monotonic_now() - start;
    const double computed_s = static_cast<double>(std::clock() - processor) / CLOCKS_PER_SEC;
    return took >= asked - 5ms && took < 2 * asked && computed_s < seconds(asked) / 2;
  };
  bool slept = false;
  for (int attempt = 0; attempt < 20 && !slept; ++attempt) slept = sleeps_as_asked();
  EXPECT_TRUE(slept) << "it spins, wakes up too early or too late";
}

/// How a thread that drives several transports sleeps.
TEST_P(Connecting, TheArmedDescriptorShowsWhenThereIsSomethingToDo) {
  Pair pair(GetParam());
  // 0: nothing to do within the time, 1: something.
  const auto wait = [&](Node& node, int timeout_ms) {
    pollfd waited = {node->arm(), POLLIN, 0};
    if (waited.fd < 0) return 1;
    return ::poll(&waited, 1, timeout_ms);
  };
  ASSERT_TRUE(pump({&pair.sender, &pair.receiver}, [&] { return wait(pair.receiver, 10) == 0; }));
  pair.receiver->wake();
  EXPECT_EQ(wait(pair.receiver, 20'000), 1);
  ASSERT_TRUE(pump({&pair.receiver}, [&] { return wait(pair.receiver, 10) == 0; }));

  const std::vector from = {pair.sender.extent(0, 2'000'000)};
  fill(from, 1);
  ASSERT_TRUE(pair.sender->send(SendId(1), pair.to_receiver, {}, from).has_value());
  const auto drive = [&](const std::function<bool()>& done) {
    return pump({}, [&] {
      for (Node* const node : {&pair.sender, &pair.receiver}) {
        if (wait(*node, 0) == 1) node->poll();
      }
      return done();
    });
  };
  ASSERT_TRUE(drive([&] { return !pair.receiver.offers.empty(); }));
  const std::vector to = {pair.receiver.extent(0, 2'000'000)};
  pair.receiver->accept(pair.receiver.offers.front().offer, to);
  ASSERT_TRUE(drive([&] { return pair.sender.sent(SendId(1)).has_value(); }));
  EXPECT_TRUE(matches(to, 1, 2'000'000));

  Node newcomer(GetParam());
  const PairToken token = random_token();
  const PeerId expected = pair.receiver->expect(token);
  const PeerId peer = newcomer->connect(pair.receiver->address(), token).value();
  ASSERT_TRUE(drive([&] { return newcomer.poll(), pair.receiver.is_up(expected); }));
  newcomer->close(peer);
  ASSERT_TRUE(drive([&] { return newcomer.poll(), pair.receiver.is_down(expected); }));
}

TEST_P(Connecting, AMessageWakesASleepingPoll) {
  Pair pair(GetParam());
  std::atomic<bool> got = false;
  std::thread receiving([&] {
    const Instant until = monotonic_now() + 20s;
    while (pair.receiver.offers.empty() && monotonic_now() < until) pair.receiver.poll(20s);
    got = !pair.receiver.offers.empty();
  });
  std::this_thread::sleep_for(20ms);
  const Instant start = monotonic_now();
  ASSERT_TRUE(pair.sender->send(SendId(1), pair.to_receiver, bytes_of("hey"), {}).has_value());
  while (!got && monotonic_now() - start < 20s) pair.sender.poll(1ms);
  receiving.join();
  EXPECT_TRUE(got);
  EXPECT_LT(monotonic_now() - start, 10s) << "it slept for its time";
}

}  // namespace
}  // namespace baton::transport::test
