#include "support/node.h"

#include <algorithm>
#include <cstring>
#include <random>

#include <gtest/gtest.h>

#include "baton/base/check.h"

namespace baton::transport::test {
namespace {

/// Random bytes whose number has no factor in common with any block size: a payload that is shifted
/// or swapped does not match.
const std::vector<std::byte>& noise() {
  static const std::vector<std::byte> bytes = [] {
    std::vector<std::byte> made(65'521);
    std::mt19937 random(1);
    for (std::byte& byte : made) byte = static_cast<std::byte>(random());
    return made;
  }();
  return bytes;
}

/// Calls `visit(memory, expected, bytes)` for each run of the pattern in the extents' first
/// `bytes`; the number of bytes visited.
template <typename Visit>
std::size_t for_each_run(std::span<const Extent> extents, std::uint64_t seed, std::size_t bytes,
                         const Visit& visit) {
  std::size_t position = 0;
  for (const Extent& extent : extents) {
    for (std::size_t done = 0; done < extent.bytes && position < bytes;) {
      const std::size_t start = (seed * 7919 + position) % noise().size();
      const std::size_t run =
          std::min({extent.bytes - done, noise().size() - start, bytes - position});
      visit(extent.data + done, noise().data() + start, run);
      done += run;
      position += run;
    }
  }
  return position;
}

std::unique_ptr<Transport> must_make(std::string_view name, const Options& options) {
  auto made = make_transport(name, options);
  if (made.has_error()) ADD_FAILURE() << made.error().message();
  return std::move(made.value());
}

}  // namespace

Node::Node(std::unique_ptr<Transport> made, std::size_t arena_bytes)
    : arena(std::move(tensor::SharedBuffer::create("test", arena_bytes).value())),
      transport(std::move(made)) {
  std::memset(arena.data(), std::to_integer<int>(guard), arena.size());
  EXPECT_TRUE(transport->register_memory(arena).has_value());
}

Node::Node(std::string_view name, const Options& options, std::size_t arena_bytes)
    : Node(must_make(name, options), arena_bytes) {}

void Node::poll(Duration max_wait) {
  std::vector<Event> events;
  transport->poll(max_wait, events);
  for (Event& event : events) {
    if (auto* offered = std::get_if<Offered>(&event)) {
      EXPECT_TRUE(is_up(offered->peer) && !is_down(offered->peer)) << "offer of no live peer";
      offers.push_back(std::move(*offered));
    } else if (const auto* send = std::get_if<SendDone>(&event)) {
      EXPECT_TRUE(send_dones.emplace(send->send, send->status).second) << "second SendDone";
    } else if (const auto* receive = std::get_if<ReceiveDone>(&event)) {
      EXPECT_TRUE(receive_dones.emplace(receive->offer, receive->status).second)
          << "second ReceiveDone";
    } else if (const auto* up = std::get_if<PeerUp>(&event)) {
      EXPECT_TRUE(ups.insert(up->peer).second) << "second PeerUp";
    } else if (const auto* down = std::get_if<PeerDown>(&event)) {
      EXPECT_TRUE(downs.emplace(down->peer, down->error).second) << "second PeerDown";
      dones_at_down[down->peer] = {send_dones.size(), receive_dones.size()};
    }
  }
}

std::vector<Extent> Node::scattered(std::size_t offset, std::size_t count, std::size_t bytes,
                                    std::size_t stride) {
  std::vector<Extent> extents;
  for (std::size_t i = 0; i < count; ++i) extents.push_back(extent(offset + i * stride, bytes));
  return extents;
}

std::optional<Status> Node::sent(SendId id) const {
  const auto found = send_dones.find(id);
  if (found == send_dones.end()) return std::nullopt;
  return found->second;
}

std::optional<Status> Node::received(OfferId id) const {
  const auto found = receive_dones.find(id);
  if (found == receive_dones.end()) return std::nullopt;
  return found->second;
}

bool pump(std::initializer_list<Node*> nodes, const std::function<bool()>& done,
          Duration patience) {
  const Instant until = monotonic_now() + patience;
  while (!done()) {
    if (monotonic_now() > until) return false;
    for (Node* const node : nodes) node->poll(50us);
  }
  return true;
}

Pair::Pair(std::string_view name, const Options& options, std::size_t arena_bytes)
    : sender(name, options, arena_bytes), receiver(name, options, arena_bytes) {
  connect();
}

Pair::Pair(std::unique_ptr<Transport> sender_transport,
           std::unique_ptr<Transport> receiver_transport)
    : sender(std::move(sender_transport)), receiver(std::move(receiver_transport)) {
  connect();
}

void Pair::connect() { std::tie(to_receiver, to_sender) = test::connect(sender, receiver); }

Offered Pair::next_offer() {
  if (!pump([&] { return !receiver.offers.empty(); })) {
    ADD_FAILURE() << "no offer came";
    return {};
  }
  Offered offered = std::move(receiver.offers.front());
  receiver.offers.pop_front();
  return offered;
}

PairToken random_token() { return PairToken(random_request_id()); }

std::pair<PeerId, PeerId> connect(Node& from, Node& to) {
  const PairToken token = random_token();
  const PeerId incoming = to->expect(token);
  const PeerId outgoing = from->connect(to->address(), token).value();
  EXPECT_TRUE(pump({&from, &to}, [&] { return from.is_up(outgoing) && to.is_up(incoming); }))
      << "not connected";
  return {outgoing, incoming};
}

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

void fill(std::span<const Extent> extents, std::uint64_t seed) {
  for_each_run(extents, seed, ~std::size_t{0},
               [](std::byte* memory, const std::byte* expected, std::size_t bytes) {
                 std::memcpy(memory, expected, bytes);
               });
}

bool matches(std::span<const Extent> extents, std::uint64_t seed, std::size_t bytes) {
  bool equal = true;
  const auto compare = [&](const std::byte* memory, const std::byte* expected, std::size_t run) {
    equal = equal && std::memcmp(memory, expected, run) == 0;
  };
  return for_each_run(extents, seed, bytes, compare) == bytes && equal;
}

bool untouched(std::span<const std::byte> bytes) {
  if (bytes.empty()) return true;
  return bytes[0] == guard && std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0;
}

std::vector<Extent> uneven(Node& node, std::size_t offset, std::size_t bytes, std::size_t count,
                           std::uint64_t seed) {
  BATON_CHECK(count > 0);
  std::mt19937_64 random(seed);
  std::vector<std::size_t> cuts = {0, bytes};
  while (cuts.size() < count + 1) cuts.push_back(random() % (bytes + 1));
  std::sort(cuts.begin(), cuts.end());
  std::vector<Extent> extents;
  for (std::size_t i = 0; i < count; ++i) {
    // A gap of one byte between neighbours: they never merge by accident.
    extents.push_back(node.extent(offset + cuts[i] + i, cuts[i + 1] - cuts[i]));
  }
  return extents;
}

}  // namespace baton::transport::test
