// One side of a transport under test: its memory, and a log of events that checks the contract's
// promises about them (each Done exactly once, nothing of a peer after its PeerDown).
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "baton/transport/factory/factory.h"

namespace baton::transport::test {

using namespace std::chrono_literals;

/// Never touched memory of a node's arena has this value.
inline constexpr std::byte guard{0xEE};

inline constexpr std::size_t default_arena_bytes = std::size_t{4} << 20;

/// For tests that are not about deadlines: a machine that is busy with other work runs no product's
/// deadline out before the test itself gives up.
inline Options patient() {
  Options options;
  options.hello_deadline = 60s;
  options.connect_deadline = 60s;
  options.cancel_grace = 60s;
  return options;
}

class Node {
 public:
  explicit Node(std::unique_ptr<Transport> transport,
                std::size_t arena_bytes = default_arena_bytes);
  explicit Node(std::string_view name, const Options& options = patient(),
                std::size_t arena_bytes = default_arena_bytes);

  Transport& operator*() { return *transport; }
  Transport* operator->() { return transport.get(); }

  /// Polls once and files the events.
  void poll(Duration max_wait = Duration::zero());
  void destroy_transport() { transport.reset(); }

  Extent extent(std::size_t offset, std::size_t bytes) { return {arena.data() + offset, bytes}; }
  /// `count` extents of `bytes` each, `stride` apart.
  std::vector<Extent> scattered(std::size_t offset, std::size_t count, std::size_t bytes,
                                std::size_t stride);

  std::optional<Status> sent(SendId id) const;
  std::optional<Status> received(OfferId id) const;
  bool is_up(PeerId id) const { return ups.contains(id); }
  bool is_down(PeerId id) const { return downs.contains(id); }

  tensor::SharedBuffer arena;  // outlives the transport
  std::unique_ptr<Transport> transport;
  std::deque<Offered> offers;  ///< not yet taken by the test
  std::map<SendId, Status> send_dones;
  std::map<OfferId, Status> receive_dones;
  std::set<PeerId> ups;
  std::map<PeerId, Error> downs;
  /// Send and receive Done events that had come when the peer went down.
  std::map<PeerId, std::pair<std::size_t, std::size_t>> dones_at_down;
};

/// How long a test waits for what has to come. Only a failing test waits that long.
inline constexpr Duration test_patience = 30s;

/// Polls all nodes in turn until `done`; false if that did not come.
bool pump(std::initializer_list<Node*> nodes, const std::function<bool()>& done,
          Duration patience = test_patience);

/// Two connected nodes.
struct Pair {
  explicit Pair(std::string_view name, const Options& options = patient(),
                std::size_t arena_bytes = default_arena_bytes);
  /// The same over given transports.
  Pair(std::unique_ptr<Transport> sender_transport, std::unique_ptr<Transport> receiver_transport);

  bool pump(const std::function<bool()>& done, Duration patience = test_patience) {
    return test::pump({&sender, &receiver}, done, patience);
  }
  /// The next offer at the receiver.
  Offered next_offer();

  Node sender;
  Node receiver;
  PeerId to_receiver;
  PeerId to_sender;

 private:
  void connect();
};

/// Sets a flag at the end of its scope: a thread whose assertion failed has ended, too.
class SetAtEnd {
 public:
  explicit SetAtEnd(std::atomic<bool>& flag) : flag_(flag) {}
  ~SetAtEnd() { flag_ = true; }
  SetAtEnd(const SetAtEnd&) = delete;
  SetAtEnd& operator=(const SetAtEnd&) = delete;

 private:
  std::atomic<bool>& flag_;
};

PairToken random_token();

/// Connects `from` to `to` and waits until both are up.
std::pair<PeerId, PeerId> connect(Node& from, Node& to);

std::vector<std::byte> bytes_of(std::string_view text);

/// Fills / checks extents, as one sequence, with a pattern that depends on seed and position.
void fill(std::span<const Extent> extents, std::uint64_t seed);
bool matches(std::span<const Extent> extents, std::uint64_t seed, std::size_t bytes);
bool untouched(std::span<const std::byte> bytes);

/// Splits `bytes` into `count` extents of uneven sizes, some of them empty, from `offset` on.
std::vector<Extent> uneven(Node& node, std::size_t offset, std::size_t bytes, std::size_t count,
                           std::uint64_t seed);

}  // namespace baton::transport::test
