// The sending side of handoffs: which units go where and when, what the other side answered. Pure:
// computed digests and `now` come in, effects go out. Its states are in ARCHITECTURE.md.
//
// It never copies or frees memory: the blocks of a source stay pinned by the node core until
// `Idle`.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <variant>
#include <vector>

#include "baton/base/time.h"
#include "baton/handoff/core/types.h"
#include "baton/protocol/unit_header.h"

namespace baton::handoff {

struct SenderLimits {
  /// From commit known (or target known, whichever is later) to the answer.
  Duration answer_patience = std::chrono::seconds(10);
};

// Effects.
struct SendUnits {
  TransferId id;
  LinkId link;
  protocol::UnitHeader header;
  std::vector<Piece> pieces;
};
struct CancelSend {
  TransferId id;
};
struct SendCommit {
  SourceId source;
  LinkId link;
  protocol::Commit commit;
};
struct SourceAccepted {
  SourceId source;
  protocol::AttemptKey key;
  LinkId link;
  protocol::HandoffFacts facts;
};
/// The blocks stay pinned: a new target may follow.
struct SourceFailed {
  SourceId source;
  protocol::AttemptKey key;
  Reason reason = Reason::internal;
  std::string message;
  protocol::HandoffFacts facts;
};
/// After abort() or acceptance: no send is open, the blocks may be freed. Comes once a source.
struct SourceIdle {
  SourceId source;
};
using SenderEffect =
    std::variant<SendUnits, CancelSend, SendCommit, SourceAccepted, SourceFailed, SourceIdle>;

enum class SendOutcome : std::uint8_t { ok, refused, cancelled, lost };

class Sender {
 public:
  Sender(Geometry geometry, Digest256 fingerprint, SenderLimits limits);

  /// A prompt of `length` positions is computed into these blocks (one entry a group) since
  /// `started_at`.
  void begin(SourceId id, const protocol::AttemptKey& key, std::int64_t length,
             std::vector<LocalBlocks> blocks, Instant started_at);
  /// The sequence's blocks as they are now: a window's are taken and dropped as the prompt
  /// advances.
  void extend(SourceId id, std::vector<LocalBlocks> blocks);
  /// What became final of a model layer when its first `positions` positions are computed: the
  /// units to digest now and to pass to units_ready(). A partial last unit counts once the prompt
  /// is whole.
  struct ReadyUnits {
    std::uint32_t first = 0;
    std::uint32_t count = 0;
    std::vector<Piece> pieces;
  };
  ReadyUnits newly_ready(SourceId id, std::uint32_t layer, std::int64_t positions) const;
  /// Units [first, first + k.size()) of a model layer are final, with these content digests.
  /// Ignored for a request that is not known (it was aborted meanwhile).
  void units_ready(SourceId id, std::uint32_t layer, std::uint32_t first, std::vector<Digest128> k,
                   std::vector<Digest128> v, Instant computed_at, Instant now);
  /// The prompt is computed and these tokens were sampled from it at `sampled_at`.
  void commit(SourceId id, std::int32_t first_index, protocol::Tokens tokens, Instant sampled_at,
              Instant now);
  /// Where to; a second target restarts the sending. `key` carries the current legs.
  void target(SourceId id, const protocol::AttemptKey& key, NodeId node, Epoch epoch,
              protocol::Grant grant, Instant now);
  /// Ends the request; SourceIdle follows.
  void abort(SourceId id);

  void link_up(LinkId link, NodeId node, Epoch epoch, RequestId secret, Instant now);
  void link_down(LinkId link, Instant now);
  void send_done(TransferId id, SendOutcome outcome, Instant now);
  /// The transport had no room for this send: it is repeated after the next send_done or tick.
  void send_postponed(TransferId id);
  /// The commit of a SendCommit has gone out, behind the units that it announces.
  void commit_sent(SourceId id, Instant at);
  void accepted(LinkId link, const protocol::Accepted& message, Instant arrived);
  void commit_refused(LinkId link, const protocol::CommitRefused& message, Instant now);
  void tick(Instant now);

  std::vector<SenderEffect> take_effects();
  std::size_t sources() const { return sources_.size(); }

 private:
  enum class State : std::uint8_t { collecting, sending, committed, accepted, failed, aborting };

  struct LayerUnits {
    std::uint32_t first = 0;  ///< first needed unit
    std::uint32_t ready = 0;  ///< one past the last ready unit
    /// One past the last unit that the current target was offered or holds.
    std::uint32_t sent = 0;
    std::vector<Digest128> k;  ///< [unit - first]
    std::vector<Digest128> v;
  };
  struct Destination {
    NodeId node;
    Epoch epoch;
    protocol::Grant grant;
    std::optional<LinkId> link;
    Instant since;
  };
  struct Source {
    SourceId id;
    protocol::AttemptKey key;
    std::int64_t length = 0;
    std::vector<LocalBlocks> blocks;
    std::vector<LayerUnits> layers;  ///< by model layer
    State state = State::collecting;
    std::optional<Destination> destination;
    std::optional<protocol::Commit> commit;
    bool resent = false;
    std::size_t open_sends = 0;
    Instant begun;
    Instant first_offer;
    Instant sampled;
    Instant committed;  ///< the last commit went out
    Instant deadline;
    protocol::HandoffFacts facts;
    SourceFailed failure;
  };
  struct Link {
    NodeId node;
    Epoch epoch;
    RequestId secret;
  };
  struct OpenSend {
    SourceId source;
    SendUnits message;
  };

  Source* find(SourceId id);
  Source* find(LinkId link, const protocol::AttemptKey& key);
  void connect_destination(Source& source, Instant now);
  void restart(Source& source, Instant now);
  void advance(Source& source, Instant now);
  void offer_layer(Source& source, std::uint32_t layer, Instant now);
  void offer(Source& source, std::uint32_t layer, std::uint32_t first, std::uint32_t count,
             Instant now);
  bool everything_offered(const Source& source) const;
  void try_commit(Source& source);
  void fail(Source& source, Reason reason, std::string message);
  void cancel_open(Source& source);
  void finish_if_idle(SourceId id);
  std::vector<protocol::ComponentRoot> roots(const Source& source) const;
  std::vector<protocol::SlotRun> slots_for(const Source& source, std::uint32_t group,
                                           std::uint32_t first, std::uint32_t count) const;

  Geometry geometry_;
  Digest256 fingerprint_;
  SenderLimits limits_;
  std::vector<std::uint32_t> group_of_layer_;
  std::vector<std::uint32_t> index_in_group_;
  std::map<SourceId, Source> sources_;
  std::map<LinkId, Link> links_;
  std::map<TransferId, OpenSend> open_;
  std::deque<TransferId> postponed_;
  std::uint64_t next_transfer_ = 1;
  std::vector<SenderEffect> effects_;
};

}  // namespace baton::handoff
