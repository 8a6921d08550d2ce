// Routers as owners of what a worker holds: their epochs and leases, and the tombstones of ended
// attempts. Pure; shared by both node cores.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "baton/base/time.h"
#include "baton/protocol/messages.h"

namespace baton::handoff {

/// A router in one of its lives.
struct OwnerRef {
  NodeId node;
  Epoch epoch;
  friend auto operator<=>(const OwnerRef&, const OwnerRef&) = default;
};

class Owners {
 public:
  /// A connection of this owner was made or a heartbeat came. Returns the earlier life of the same
  /// node id, if one was known: everything it owned ends now.
  std::optional<OwnerRef> heard_from(const OwnerRef& owner, Duration lease, Instant now);

  /// Owners whose lease has passed; they are forgotten.
  std::vector<OwnerRef> take_expired(Instant now);

  /// A message came on this owner's connection. False for an earlier life of a node id that has a
  /// newer one; an owner whose lease had run out is known again.
  bool accept(const OwnerRef& owner, Duration lease, Instant now);

  bool is_current(const OwnerRef& owner) const;

  std::vector<OwnerRef> all() const;

 private:
  struct Lease {
    Epoch epoch;
    Instant until;
  };
  std::map<NodeId, Lease> leases_;
};

/// The last answer about attempts that ended, so that a repeated or late message gets it again.
class Tombstones {
 public:
  explicit Tombstones(std::size_t capacity) : capacity_(capacity) {}

  void put(const protocol::AttemptKey& key, protocol::Message answer, Instant until);
  /// The answer for a message about `request` whose legs are not both newer than the tombstone's.
  const protocol::Message* find(const protocol::AttemptKey& key) const;
  void tick(Instant now);

  std::size_t size() const { return stones_.size(); }
  /// Tombstones that were dropped before their time since the table was full.
  std::uint64_t dropped() const { return dropped_; }

 private:
  struct Stone {
    Attempt attempt;
    protocol::Message answer;
    Instant until;
  };
  std::size_t capacity_;
  std::map<RequestId, Stone> stones_;
  std::deque<RequestId> order_;
  std::uint64_t dropped_ = 0;
};

}  // namespace baton::handoff
