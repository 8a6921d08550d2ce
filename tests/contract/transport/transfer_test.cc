// What arrives: payloads, headers, order, room.
#include <atomic>
#include <thread>

#include "support/node.h"
#include "support/param.h"

namespace baton::transport::test {
namespace {

class Transfer : public EveryTransport {};
BATON_EVERY_TRANSPORT(Transfer);

TEST_P(Transfer, ScatteredListsWithDifferentSplitPointsCarryTheSameBytes) {
  Pair pair(GetParam());
  std::uint64_t next = 1;
  for (const auto& [bytes, from_count, to_count] :
       std::initializer_list<std::tuple<std::size_t, std::size_t, std::size_t>>{
           {1, 1, 1},
           {4096, 1, 1},
           {4097, 1, 3},
           {100'000, 7, 1},
           {100'000, 1, 7},
           {1'000'003, 64, 63},
           {1'500'000, 3000, 1},
           {1'500'000, 1, 3000},
           {1'500'000, 3000, 2999}}) {
    const SendId id(next++);
    const auto from = uneven(pair.sender, 10, bytes, from_count, 1);
    const auto to = uneven(pair.receiver, 77, bytes, to_count, 2);
    fill(from, id.value());
    ASSERT_TRUE(pair.sender->send(id, pair.to_receiver, bytes_of("head"), from).has_value());
    const Offered offered = pair.next_offer();
    EXPECT_EQ(offered.bytes, bytes);
    EXPECT_EQ(offered.peer, pair.to_sender);
    EXPECT_EQ(offered.header, bytes_of("head"));
    pair.receiver->accept(offered.offer, to);
    ASSERT_TRUE(
        pair.pump([&] { return pair.sender.sent(id) && pair.receiver.received(offered.offer); }));
    EXPECT_EQ(pair.sender.sent(id), Status::ok);
    EXPECT_EQ(pair.receiver.received(offered.offer), Status::ok);
    EXPECT_TRUE(matches(to, id.value(), bytes)) << bytes;
  }
  EXPECT_TRUE(untouched(pair.receiver.arena.span().first(77)));
}

TEST_P(Transfer, BytesReceivedAreTheSmallerOfAnnouncedAndRoomR12) {
  Pair pair(GetParam());
  std::uint64_t next = 1;
  for (const auto& [announced, room] :
       std::initializer_list<std::pair<std::size_t, std::size_t>>{{1000, 999},
                                                                  {1000, 0},
                                                                  {1000, 1},
                                                                  {1'000'000, 999'999},
                                                                  {1'000'000, 1},
                                                                  {1'000'000, 0},
                                                                  {1000, 2000},
                                                                  {1'000'000, 1'200'000}}) {
    const SendId id(next++);
    std::fill(pair.receiver.arena.span().begin(), pair.receiver.arena.span().end(), guard);
    const auto from = uneven(pair.sender, 0, announced, 5, id.value());
    const auto to = uneven(pair.receiver, 0, room, 3, id.value());
    fill(from, id.value());
    ASSERT_TRUE(pair.sender->send(id, pair.to_receiver, {}, from).has_value());
    const Offered offered = pair.next_offer();
    pair.receiver->accept(offered.offer, to);
    ASSERT_TRUE(
        pair.pump([&] { return pair.sender.sent(id) && pair.receiver.received(offered.offer); }));
    const Status expected = announced > room ? Status::truncated : Status::ok;
    EXPECT_EQ(pair.receiver.received(offered.offer), expected) << announced << " " << room;
    EXPECT_EQ(pair.sender.sent(id), expected);
    EXPECT_TRUE(matches(to, id.value(), std::min(announced, room)));
    EXPECT_TRUE(untouched(pair.receiver.arena.span().subspan(room + 3, 10'000)));
  }
}

TEST_P(Transfer, AnEmptyPayloadIsAnOfferLikeAnyOther) {
  Pair pair(GetParam());
  ASSERT_TRUE(pair.sender->send(SendId(1), pair.to_receiver, bytes_of("only"), {}).has_value());
  const std::vector<Extent> empty = {{nullptr, 0}, pair.sender.extent(5, 0)};
  ASSERT_TRUE(pair.sender->send(SendId(2), pair.to_receiver, {}, empty).has_value());
  for (std::uint64_t i = 1; i <= 2; ++i) {
    const Offered offered = pair.next_offer();
    EXPECT_EQ(offered.bytes, 0u);
    EXPECT_EQ(offered.header.size(), i == 1 ? 4u : 0u);
    pair.receiver->accept(offered.offer, {});
    ASSERT_TRUE(pair.pump(
        [&] { return pair.sender.sent(SendId(i)) && pair.receiver.received(offered.offer); }));
    EXPECT_EQ(pair.sender.sent(SendId(i)), Status::ok);
  }
}

TEST_P(Transfer, HeadersHaveALimitAndTheLargestOneArrives) {
  Pair pair(GetParam());
  std::vector<std::byte> header(max_header_bytes + 1);
  for (std::size_t i = 0; i < header.size(); ++i) header[i] = static_cast<std::byte>(i * 7);
  const auto extents = pair.sender.scattered(0, 3, 20'000, 30'000);
  fill(extents, 9);
  EXPECT_EQ(pair.sender->send(SendId(1), pair.to_receiver, header, extents).error().reason(),
            Reason::invalid_request);
  header.pop_back();
  ASSERT_TRUE(pair.sender->send(SendId(2), pair.to_receiver, header, extents).has_value());
  ASSERT_TRUE(pair.sender->send(SendId(3), pair.to_receiver, header, {}).has_value());
  const Offered with_payload = pair.next_offer();
  EXPECT_EQ(with_payload.header, header);
  EXPECT_EQ(pair.next_offer().header, header);
  pair.receiver->accept(with_payload.offer, std::vector{pair.receiver.extent(0, 60'000)});
  ASSERT_TRUE(pair.pump([&] { return pair.sender.sent(SendId(2)).has_value(); }));
  EXPECT_TRUE(matches(std::vector{pair.receiver.extent(0, 60'000)}, 9, 60'000));
}

TEST_P(Transfer, WhatBreaksALimitIsATypedErrorAndStartsNothing) {
  Options options = patient();
  options.max_payload_bytes = 1'000'000;
  Pair pair(GetParam(), options);
  std::byte foreign[16] = {};
  const auto reason = [&](std::span<const Extent> extents) {
    return pair.sender->send(SendId(1), pair.to_receiver, {}, extents).error().reason();
  };
  EXPECT_EQ(reason(std::vector<Extent>{{foreign, 16}}), Reason::invalid_request);
  const Extent beyond{pair.sender.arena.data() + pair.sender.arena.size() - 8, 9};
  EXPECT_EQ(reason(std::vector{beyond}), Reason::invalid_request);
  EXPECT_EQ(reason(std::vector<Extent>(max_extents + 1)), Reason::invalid_request);
  EXPECT_EQ(reason(std::vector{pair.sender.extent(0, 1'000'001)}), Reason::invalid_request);
  EXPECT_EQ(pair.sender->send(SendId(1), PeerId(999), {}, {}).error().reason(),
            Reason::transport_failed);
  pair.sender.poll();
  EXPECT_TRUE(pair.sender.send_dones.empty());
}

TEST_P(Transfer, OffersComeInTheOrderOfTheSends) {
  Pair pair(GetParam());
  for (std::uint64_t i = 0; i < 60; ++i) {
    const std::size_t bytes = i % 3 == 0 ? 0 : i % 3 == 1 ? 100 : 50'000;
    ASSERT_TRUE(pair.sender
                    ->send(SendId(i), pair.to_receiver, bytes_of(std::to_string(i)),
                           std::vector{pair.sender.extent(0, bytes)})
                    .has_value());
  }
  for (std::uint64_t i = 0; i < 60; ++i) {
    EXPECT_EQ(pair.next_offer().header, bytes_of(std::to_string(i)));
  }
}

TEST_P(Transfer, AnOfferMayWaitWhileOthersGoOn) {
  Pair pair(GetParam());
  const auto from = pair.sender.scattered(0, 10, 10'000, 10'001);
  fill(from, 3);
  ASSERT_TRUE(pair.sender->send(SendId(1), pair.to_receiver, bytes_of("late"), from).has_value());
  const Offered late = pair.next_offer();
  for (std::uint64_t i = 2; i < 40; ++i) {
    ASSERT_TRUE(pair.sender->send(SendId(i), pair.to_receiver, {}, from).has_value());
    const Offered offered = pair.next_offer();
    pair.receiver->accept(offered.offer, std::vector{pair.receiver.extent(200'000, 100'000)});
    ASSERT_TRUE(pair.pump([&] { return pair.sender.sent(SendId(i)).has_value(); }));
  }
  EXPECT_FALSE(pair.sender.sent(SendId(1)));
  EXPECT_TRUE(untouched(pair.receiver.arena.span().first(100'000)));
  pair.receiver->accept(late.offer, std::vector{pair.receiver.extent(0, 100'000)});
  ASSERT_TRUE(pair.pump([&] { return pair.receiver.received(late.offer).has_value(); }));
  EXPECT_TRUE(matches(std::vector{pair.receiver.extent(0, 100'000)}, 3, 100'000));
}

TEST_P(Transfer, TooManyOpenSendsAreNoSpaceAndEachIsDeliveredOnceWhenRetriedHNG25) {
  Options options = patient();
  options.max_open_sends = 4;
  Pair pair(GetParam(), options);
  const auto from = pair.sender.scattered(0, 4, 5'000, 6'000);
  std::size_t refused = 0;
  std::size_t delivered = 0;
  std::uint64_t next = 0;
  const bool ended = pair.pump([&] {
    while (next < 300) {
      const auto header = bytes_of(std::to_string(next));
      const auto result = pair.sender->send(SendId(next), pair.to_receiver, header, from);
      if (result.has_error()) {
        EXPECT_EQ(result.error().reason(), Reason::no_space);
        ++refused;
        break;
      }
      ++next;
    }
    for (; !pair.receiver.offers.empty(); pair.receiver.offers.pop_front()) {
      EXPECT_EQ(pair.receiver.offers.front().header, bytes_of(std::to_string(delivered++)));
      pair.receiver->accept(pair.receiver.offers.front().offer,
                            std::vector{pair.receiver.extent(0, 20'000)});
    }
    return pair.sender.send_dones.size() == 300;
  });
  EXPECT_TRUE(ended);
  EXPECT_EQ(delivered, 300u);
  EXPECT_GT(refused, 0u);
}

TEST_P(Transfer, SixtyFourMebibytesCrossInBothDirectionsAtOnce) {
  constexpr std::size_t bytes = std::size_t{64} << 20;
  Pair pair(GetParam(), {}, 2 * bytes);
  const std::vector from_left = {pair.sender.extent(0, bytes)};
  const std::vector from_right = {pair.receiver.extent(0, bytes)};
  fill(from_left, 1);
  fill(from_right, 2);
  ASSERT_TRUE(pair.sender->send(SendId(1), pair.to_receiver, {}, from_left).has_value());
  ASSERT_TRUE(pair.receiver->send(SendId(1), pair.to_sender, {}, from_right).has_value());
  const auto to_right = pair.receiver.scattered(bytes, 64, bytes / 64, bytes / 64);
  const auto to_left = pair.sender.scattered(bytes, 1024, bytes / 1024, bytes / 1024);
  ASSERT_TRUE(
      pair.pump([&] { return !pair.sender.offers.empty() && !pair.receiver.offers.empty(); }));
  pair.receiver->accept(pair.receiver.offers.front().offer, to_right);
  pair.sender->accept(pair.sender.offers.front().offer, to_left);
  ASSERT_TRUE(
      pair.pump([&] { return pair.sender.sent(SendId(1)) && pair.receiver.sent(SendId(1)); }, 60s));
  EXPECT_TRUE(matches(to_right, 1, bytes));
  EXPECT_TRUE(matches(to_left, 2, bytes));
}

TEST_P(Transfer, SeveralPeersSendToOneReceiverAtOnce) {
  Node receiver(GetParam());
  std::vector<std::unique_ptr<Node>> senders;
  for (std::uint64_t i = 0; i < 4; ++i) {
    auto& sender = *senders.emplace_back(std::make_unique<Node>(GetParam()));
    const PeerId peer = connect(sender, receiver).first;
    const auto from = sender.scattered(0, 16, 20'000, 21'000);
    fill(from, i);
    ASSERT_TRUE(sender->send(SendId(7), peer, bytes_of(std::to_string(i)), from).has_value());
  }
  const auto all_sent = [&] {
    for (auto& sender : senders) sender->poll();
    while (!receiver.offers.empty()) {
      const Offered offered = receiver.offers.front();
      receiver.offers.pop_front();
      const auto index = static_cast<std::size_t>(std::to_integer<int>(offered.header[0]) - '0');
      receiver->accept(offered.offer, std::vector{receiver.extent(index * 400'000, 320'000)});
    }
    return receiver.receive_dones.size() == 4;
  };
  ASSERT_TRUE(pump({&receiver}, all_sent));
  for (std::uint64_t i = 0; i < 4; ++i) {
    EXPECT_TRUE(matches(std::vector{receiver.extent(i * 400'000, 320'000)}, i, 320'000)) << i;
  }
}

/// The sender overwrites its memory after each SendDone, on a thread of its own: any later read of
/// it shows as a wrong pattern.
TEST_P(Transfer, MemoryIsReusedAfterDoneOnTwoThreads) {
  constexpr std::uint64_t rounds = 200;
  constexpr std::size_t bytes = 150'000;
  Pair pair(GetParam());
  std::atomic<bool> stop = false;
  std::thread sending([&] {
    const SetAtEnd ended(stop);
    const auto from = uneven(pair.sender, 0, bytes, 40, 5);
    for (std::uint64_t i = 0; i < rounds; ++i) {
      fill(from, i);
      ASSERT_TRUE(pair.sender->send(SendId(i), pair.to_receiver, {}, from).has_value());
      const Instant until = monotonic_now() + test_patience;
      while (!pair.sender.sent(SendId(i)) && monotonic_now() < until) pair.sender.poll(1ms);
      ASSERT_EQ(pair.sender.sent(SendId(i)), Status::ok);
    }
  });
  const auto to = uneven(pair.receiver, 0, bytes, 33, 6);
  std::uint64_t seen = 0;
  // The last receive may end after its send: that much longer than the sender's thread.
  Instant until = Instant::max();
  while (!(stop && seen == rounds) && monotonic_now() < until) {
    if (stop && until == Instant::max()) until = monotonic_now() + test_patience;
    pair.receiver.poll(10ms);
    // Before the next accept: it has the same memory.
    for (; !pair.receiver.receive_dones.empty(); ++seen) {
      EXPECT_EQ(pair.receiver.receive_dones.begin()->second, Status::ok);
      EXPECT_TRUE(matches(to, seen, bytes)) << seen;
      pair.receiver.receive_dones.erase(pair.receiver.receive_dones.begin());
    }
    for (; !pair.receiver.offers.empty(); pair.receiver.offers.pop_front()) {
      pair.receiver->accept(pair.receiver.offers.front().offer, to);
    }
  }
  sending.join();
  EXPECT_EQ(seen, rounds);
}

}  // namespace
}  // namespace baton::transport::test
