// The decorator's faults happen as asked, and never without being asked.
#include "baton/transport/fault/fault.h"

#include "support/node.h"
#include "support/param.h"

namespace baton::transport::test {
namespace {

constexpr std::size_t bytes = 10'000;

struct FaultyPair {
  FaultyPair(const FaultPolicy& at_sender, const FaultPolicy& at_receiver)
      : FaultyPair(
            std::make_unique<FaultTransport>(make_transport("loopback", {}).value(), at_sender),
            std::make_unique<FaultTransport>(make_transport("loopback", {}).value(), at_receiver)) {
  }
  FaultyPair(std::unique_ptr<FaultTransport> from, std::unique_ptr<FaultTransport> to)
      : sender(*from), receiver(*to), pair(std::move(from), std::move(to)) {}

  /// Sends messages with the headers "0", "1", …; accepts whatever is offered until all have ended
  /// or, by `over`, nothing more can come. The headers in the order of the offers.
  std::vector<std::string> exchange(
      std::uint64_t count, const std::function<bool()>& over = [] { return false; }) {
    std::vector<std::string> seen;
    const std::vector from = {pair.sender.extent(0, bytes)};
    fill(from, 1);
    std::uint64_t next = 0;
    EXPECT_TRUE(pair.pump([&] {
      while (next < count &&
             pair.sender->send(SendId(next), pair.to_receiver, bytes_of(std::to_string(next)), from)
                 .has_value()) {
        ++next;
      }
      for (; !pair.receiver.offers.empty(); pair.receiver.offers.pop_front()) {
        const Offered& offered = pair.receiver.offers.front();
        seen.emplace_back(reinterpret_cast<const char*>(offered.header.data()),
                          offered.header.size());
        announced.push_back(offered.bytes);
        pair.receiver->accept(offered.offer, std::vector{pair.receiver.extent(0, bytes)});
      }
      return pair.sender.send_dones.size() == count || over();
    }));
    return seen;
  }
  /// All but the dropped ones have ended: those wait for ever.
  std::vector<std::string> exchange_but_dropped(std::uint64_t count) {
    return exchange(
        count, [&] { return pair.sender.send_dones.size() + receiver.counts().dropped == count; });
  }
  std::string numbers_up_to(std::uint64_t count) {
    std::string all;
    for (std::uint64_t i = 0; i < count; ++i) all += std::to_string(i) + " ";
    return all;
  }

  FaultTransport& sender;
  FaultTransport& receiver;
  Pair pair;
  std::vector<std::size_t> announced;
};

std::string joined(const std::vector<std::string>& words) {
  std::string all;
  for (const std::string& word : words) all += word + " ";
  return all;
}

FaultPolicy policy(auto&& set) {
  FaultPolicy result;
  result.seed = 1;
  set(result);
  return result;
}

TEST(Fault, TheDefaultPolicyChangesNothing) {
  FaultyPair faulty(FaultPolicy{}, FaultPolicy{});
  EXPECT_EQ(joined(faulty.exchange(50)), faulty.numbers_up_to(50));
  EXPECT_EQ(faulty.pair.sender.send_dones.size(), 50u);
  EXPECT_TRUE(matches(std::vector{faulty.pair.receiver.extent(0, bytes)}, 1, bytes));
}

TEST(Fault, ADroppedOfferIsNeverShownAndEndsWhenTheSenderCancels) {
  FaultyPair faulty(FaultPolicy{}, policy([](FaultPolicy& p) { p.drop_offer = 0.3; }));
  const std::size_t seen = faulty.exchange_but_dropped(50).size();
  EXPECT_LT(seen, 50u);
  EXPECT_EQ(seen + faulty.receiver.counts().dropped, 50u);
  EXPECT_EQ(faulty.pair.sender.send_dones.size(), seen);
  for (std::uint64_t i = 0; i < 50; ++i) faulty.pair.sender->cancel_send(SendId(i));
  EXPECT_TRUE(faulty.pair.pump([&] { return faulty.pair.sender.send_dones.size() == 50; }));
}

TEST(Fault, DelayAndReorderChangeTheOrderAndLoseNothing) {
  for (const bool reorder : {false, true}) {
    FaultyPair faulty(FaultPolicy{}, policy([&](FaultPolicy& p) {
                        (reorder ? p.reorder : p.delay_offer) = 0.3;
                        p.delay = 2ms;
                      }));
    auto seen = faulty.exchange(50);
    EXPECT_NE(joined(seen), faulty.numbers_up_to(50));
    EXPECT_EQ(seen.size(), 50u);
    EXPECT_EQ(faulty.pair.sender.send_dones.size(), 50u);
    EXPECT_GT(faulty.receiver.counts().delayed + faulty.receiver.counts().reordered, 5u);
  }
}

TEST(Fault, AFlippedHeaderOrPayloadDiffersInOneBit) {
  FaultyPair headers(FaultPolicy{}, policy([](FaultPolicy& p) { p.flip_header = 1; }));
  EXPECT_EQ(__builtin_popcount(static_cast<unsigned>(headers.exchange(1)[0][0] ^ '0') & 255), 1);
  FaultyPair payloads(FaultPolicy{}, policy([](FaultPolicy& p) { p.flip_payload = 1; }));
  payloads.exchange(1);
  EXPECT_EQ(payloads.receiver.counts().payloads_flipped, 1u);
  const auto received = payloads.pair.receiver.arena.span().first(bytes);
  const auto sent = payloads.pair.sender.arena.span().first(bytes);
  int bits = 0;
  for (std::size_t i = 0; i < bytes; ++i) {
    bits += __builtin_popcount(std::to_integer<unsigned>(received[i] ^ sent[i]));
  }
  EXPECT_EQ(bits, 1);
}

TEST(Fault, ATruncatedPayloadLacksItsLastByte) {
  FaultyPair faulty(policy([](FaultPolicy& p) { p.truncate = 1; }), FaultPolicy{});
  faulty.exchange(3);
  EXPECT_EQ(faulty.announced, std::vector<std::size_t>(3, bytes - 1));
}

TEST(Fault, ADuplicateIsOfferedTwiceAndDoneOnce) {
  FaultyPair faulty(policy([](FaultPolicy& p) { p.duplicate = 1; }), FaultPolicy{});
  EXPECT_EQ(joined(faulty.exchange(3)), "0 0 1 1 2 2 ");
  EXPECT_EQ(faulty.pair.sender.send_dones.size(), 3u);
}

TEST(Fault, NoSpaceEveryThirdSendStillDeliversEachOnceInOrderHNG25) {
  FaultyPair faulty(policy([](FaultPolicy& p) { p.no_space_every = 3; }), FaultPolicy{});
  EXPECT_EQ(joined(faulty.exchange(1000)), faulty.numbers_up_to(1000));
  EXPECT_EQ(faulty.pair.sender.send_dones.size(), 1000u);
  EXPECT_GT(faulty.sender.counts().no_space, 400u);
}

TEST(Fault, ALostPeerEndsAllThatIsOpen) {
  FaultyPair faulty(policy([](FaultPolicy& p) { p.lose_peer_after_sends = 5; }), FaultPolicy{});
  faulty.exchange(20, [&] {
    return faulty.pair.sender.is_down(faulty.pair.to_receiver) &&
           faulty.pair.receiver.is_down(faulty.pair.to_sender);
  });
  EXPECT_TRUE(faulty.pair.sender.is_down(faulty.pair.to_receiver));
  EXPECT_EQ(faulty.pair.sender.send_dones.size(), 5u);
}

TEST(Fault, TheSameSeedGivesTheSameFaults) {
  const FaultPolicy drops = policy([](FaultPolicy& p) { p.drop_offer = 0.5; });
  FaultyPair first(FaultPolicy{}, drops);
  FaultyPair second(FaultPolicy{}, drops);
  EXPECT_EQ(joined(first.exchange_but_dropped(40)), joined(second.exchange_but_dropped(40)));
}

}  // namespace
}  // namespace baton::transport::test
