// What the engine thread of any worker drives: a pure core that decides, given messages, steps and
// the time. prefill_node/core and decode_node/core implement it.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "baton/base/result.h"
#include "baton/base/time.h"
#include "baton/engine/core/planner.h"
#include "baton/engine/core/step_events.h"
#include "baton/handoff/core/commands.h"
#include "baton/handoff/core/owners.h"
#include "baton/handoff/core/receiver.h"
#include "baton/handoff/core/sender.h"

namespace baton::worker {

struct NodeLimits {
  engine::ModelLimits model;
  engine::PlanLimits plan;
  std::vector<TokenId> end_ids;             ///< of the model (EOS and its kin)
  std::size_t requests = 1024;              ///< in all states
  std::int64_t backlog_tokens = 1'000'000;  ///< prefill: over it, new prompts are refused
  std::int64_t headroom_tokens = 64;        ///< decode: a grant covers this beyond the prompt
  bool prefix_cache = true;                 ///< keep whole blocks for requests to come
  std::int64_t prefill_suffix_tokens = 0;   ///< decode: the most of a prompt that is computed here
  Duration lease = std::chrono::seconds(5);
  std::size_t tombstones = 65'536;
};

// Effects.
struct ToOwner {
  handoff::OwnerRef owner;
  protocol::Message message;
};
struct ToPair {
  handoff::LinkId link;
  protocol::Message message;
};
struct ToDriver {
  handoff::EngineCommand command;
};
/// For the counters and histograms of the node's probe.
enum class Countable : std::uint8_t {
  request_finished,
  request_failed,
  request_cancelled,
  request_refused,
  lease_expired,
  orphan_freed,  ///< the owner did not know it (Unknown)
  preempted,
  handoff_accepted,
  handoff_failed,
};
struct Counted {
  Countable what = Countable::request_finished;
  Reason reason = Reason::internal;  ///< of failures and refusals
  protocol::HandoffFacts facts;      ///< of accepted handoffs
};
/// A request was looked up in the prefix cache when it was first given blocks.
struct PrefixLookedUp {
  std::int64_t query_tokens = 0;
  std::int64_t hit_tokens = 0;
};
/// The cache of a request's prompt is complete here, and where its tokens came from.
struct PromptReady {
  std::int64_t computed = 0;
  std::int64_t cached = 0;    ///< in the prefix cache of this node
  std::int64_t received = 0;  ///< handed over
};
using NodeEffect = std::variant<ToOwner, ToPair, ToDriver, Counted, PrefixLookedUp, PromptReady>;

using DriverEvent =
    std::variant<handoff::SourceAccepted, handoff::SourceFailed, handoff::SourceIdle,
                 handoff::CommitVerified, handoff::GrantClosed, handoff::HeldUnitsDiffer>;

/// One thread calls everything. Between next_step() and step_done() a step is under way: messages
/// and driver events may come in at the layers' ends, and no sequence of the step is taken away
/// other than through cancelled().
class NodeCore {
 public:
  virtual ~NodeCore() = default;

  /// `arrived`: when this process had read it. Since then it may have waited for a layer to end.
  virtual void message(const handoff::OwnerRef& from, const protocol::Message& message,
                       Instant arrived, Instant now) = 0;
  /// A router has (again) a connection here: what it may have missed is repeated.
  virtual void owner_connected(const handoff::OwnerRef& owner, Instant now) = 0;
  virtual void driver_event(const DriverEvent& event, Instant now) = 0;

  /// Empty when there is nothing to compute.
  virtual engine::StepPlan next_step(Instant now) = 0;
  virtual void layer_done(int layer, Instant now) = 0;
  virtual bool cancelled(engine::SequenceId sequence) = 0;
  virtual void step_done(const Result<engine::StepEvents>& events, Instant now) = 0;

  /// Leases, tombstones, deadlines; a few times a second, also while idle (HNG-04).
  virtual void tick(Instant now) = 0;
  /// No new requests any more.
  virtual void drain() = 0;
  virtual bool idle() const = 0;

  virtual std::vector<NodeEffect> take_effects() = 0;
  virtual protocol::Load load() const = 0;
  virtual std::vector<protocol::AttemptKey> inventory(const handoff::OwnerRef& owner) const = 0;

  virtual kvcache::BlockPools& pools() = 0;
  virtual const kvcache::BlockPools& pools() const = 0;
  virtual engine::SequenceTable& table() = 0;
};

}  // namespace baton::worker
