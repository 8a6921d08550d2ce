// The receiving side of handoffs: which units may enter which blocks, and whether a commit is
// proved. Pure: events in, effects out. Its states are in ARCHITECTURE.md.
//
// No byte enters a grant's blocks except by an AcceptUnits of this class, made after the header was
// checked against the open grant. Blocks are reusable after GrantClosed alone (quarantine).
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <variant>
#include <vector>

#include "baton/base/time.h"
#include "baton/handoff/core/sealed_digests.h"
#include "baton/handoff/core/types.h"
#include "baton/protocol/unit_header.h"

namespace baton::handoff {

struct ReceiverLimits {
  /// From a commit's arrival until everything must be there.
  Duration units_patience = std::chrono::seconds(10);
};

// Effects.
struct AcceptUnits {
  TransferId offer;
  std::vector<Piece> pieces;
};
/// Counted by reason.
struct RefuseUnits {
  TransferId offer;
  Reason reason = Reason::internal;
};
struct CancelReceive {
  TransferId offer;
};
struct RefuseCommit {
  LinkId link;
  protocol::CommitRefused message;
};
/// Everything that the commit announces is in place and proved. Comes once a grant.
struct CommitVerified {
  LinkId link;
  protocol::Commit commit;
  Instant arrived{};  ///< the commit
};
struct GrantClosed {
  std::uint64_t grant = 0;
};
/// What the grant held is not what the commit announces: no other request may get it. Comes before
/// the RefuseCommit, so that the next grant for the request finds none of it.
struct HeldUnitsDiffer {
  std::uint64_t grant = 0;
};
using ReceiverEffect = std::variant<AcceptUnits, RefuseUnits, CancelReceive, RefuseCommit,
                                    CommitVerified, GrantClosed, HeldUnitsDiffer>;

class Receiver {
 public:
  Receiver(Geometry geometry, Digest256 fingerprint, Epoch own_epoch, ReceiverLimits limits);

  /// The node core holds these blocks for the attempt (one entry a group, matching the grant).
  void open(const protocol::AttemptKey& key, protocol::Grant grant,
            std::vector<LocalBlocks> blocks);
  /// A block that an open grant holds and whose digests are not kept.
  struct HeldBlock {
    BlockName name;
    std::vector<Piece> pieces;  ///< layer by layer, K then V
  };
  /// The longest waiting of them: all its units are to be digested and passed to digested(). No
  /// commit of a grant is answered before that was done for all it holds.
  std::optional<HeldBlock> next_undigested();
  /// `held`: what next_undigested() gave last. `contents`: one of each unit, in the pieces' order.
  void digested(const HeldBlock& held, const std::vector<Digest128>& contents);

  /// No unit is accepted any more; GrantClosed follows when no receive is open.
  void close(std::uint64_t grant);

  void link_up(LinkId link, RequestId secret);
  void link_down(LinkId link);
  /// A data message is offered. Its answer (AcceptUnits or RefuseUnits) is among the effects.
  void offered(LinkId link, TransferId offer, const Result<protocol::UnitHeader>& header,
               std::uint64_t payload_bytes);
  /// The receive ended. `contents`: digests of the units as they now lie in memory, K then V; empty
  /// unless everything arrived.
  void received(TransferId offer, const std::vector<Digest128>& contents);
  void commit(LinkId link, protocol::Commit commit, Instant arrived);
  void tick(Instant now);

  std::vector<ReceiverEffect> take_effects();
  std::size_t grants() const { return grants_.size(); }

 private:
  enum class Unit : std::uint8_t { missing, receiving, present, bad };

  struct Layer {
    std::vector<Unit> state;      ///< [unit - first]; K and V travel and count together
    std::vector<Digest128> k, v;  ///< content digests of present units
  };
  struct Group {
    std::uint32_t first = 0;
    std::uint32_t end = 0;
    LocalBlocks blocks;
    std::vector<Layer> layers;  ///< by index in the group
  };
  struct WaitingCommit {
    LinkId link;
    protocol::Commit commit;
    Instant arrived;
    Instant deadline;
  };
  struct OpenGrant {
    protocol::AttemptKey key;
    protocol::Grant grant;
    std::vector<Group> groups;
    std::size_t open_receives = 0;
    std::size_t missing = 0;     ///< (layer, unit) pairs that are not present
    std::size_t undigested = 0;  ///< blocks of those that were here
    std::optional<WaitingCommit> waiting;
    bool holds = false;  ///< some of its units were here when it was opened
    bool bad_reported = false;
    bool verified = false;
    bool closing = false;
  };
  struct Undigested {
    std::uint64_t grant = 0;
    std::uint32_t group = 0;
    std::uint32_t at = 0;  ///< which of the grant's blocks of the group
    BlockName name;
  };
  struct OpenReceive {
    LinkId link;
    std::uint64_t grant = 0;
    protocol::UnitHeader header;
  };

  Reason check_offer(const OpenGrant& grant, const protocol::UnitHeader& header,
                     std::uint64_t payload_bytes) const;
  Reason check_slots(const OpenGrant& grant, const protocol::UnitHeader& header) const;
  std::optional<CommitVerified> settle(OpenGrant& grant);
  std::optional<std::pair<Reason, std::string>> check_commit(const OpenGrant& grant,
                                                             const protocol::Commit& commit) const;
  std::optional<std::string> check_components(const OpenGrant& grant,
                                              const protocol::Commit& commit, Reason& reason) const;
  bool roots_equal(const OpenGrant& grant, const protocol::Commit& commit) const;
  std::vector<protocol::UnitRange> take_bad(OpenGrant& grant);
  void refuse_commit(OpenGrant& grant, Reason reason, std::string message,
                     std::vector<protocol::UnitRange> bad);
  void refuse_roots(OpenGrant& grant);
  std::pair<std::uint32_t, std::uint32_t> place_of(std::uint32_t layer) const;
  void take_held(OpenGrant& grant, std::uint32_t group);
  static void fill(Group& group, const protocol::GrantGroup& granted, std::uint32_t at,
                   const BlockDigests& digests);
  HeldBlock held_block(const Undigested& which) const;
  void fill_first(const BlockDigests& digests);
  void keep_digests(const OpenGrant& grant);

  Geometry geometry_;
  Digest256 fingerprint_;
  Epoch own_epoch_;
  ReceiverLimits limits_;
  SealedDigests sealed_;
  std::deque<Undigested> undigested_;
  std::map<std::uint64_t, OpenGrant> grants_;
  std::map<LinkId, RequestId> secrets_;
  std::map<TransferId, OpenReceive> receives_;
  std::vector<ReceiverEffect> effects_;
};

}  // namespace baton::handoff
