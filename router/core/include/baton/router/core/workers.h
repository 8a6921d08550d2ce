// The workers that a router knows, and which of them a request goes to. Pure value code.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <vector>

#include "baton/base/time.h"
#include "baton/protocol/messages.h"

namespace baton::router {

struct Worker {
  NodeId node;
  protocol::Role role = protocol::Role::prefill;
  Epoch epoch;
  Digest256 fingerprint;
  protocol::WorkerInfo info;
  protocol::Load load;
  bool draining = false;
  bool up = false;
  Instant down_since;
};

/// A worker in one of its lives.
struct WorkerRef {
  NodeId node;
  Epoch epoch;
  friend auto operator<=>(const WorkerRef&, const WorkerRef&) = default;
};

struct Placement {
  std::optional<WorkerRef> prefill;  ///< none: the decode worker is likely to compute the prompt
  std::optional<WorkerRef> decode;
  Digest256 fingerprint;
};

struct PlacementNeed {
  std::int64_t tokens = 0;  ///< positions to compute and to hold
  bool needs_decode = true;
  bool has_prefill = false;  ///< a prefill worker has it already
  /// Tokens at its beginning that workers are thought to have cached.
  std::map<NodeId, std::int64_t> cached{};
  std::optional<Digest256> fingerprint;  ///< fixed once a request was placed
  std::set<NodeId> avoid;                ///< refused or lost for this request: only if nothing else

  std::int64_t cached_at(const NodeId& node) const {
    const auto found = cached.find(node);
    return found == cached.end() ? 0 : found->second;
  }
  std::int64_t left_at(const NodeId& node) const { return tokens - cached_at(node); }
};

/// Scores are the last report plus what this router has placed since and what no report can show
/// yet (RTR-04); ties and near-ties are broken at random, so that replicas of the router and equal
/// workers do not stampede (RTR-05, RTR-06).
class Workers {
 public:
  /// True when the node is new or lives a new life.
  bool came_up(Worker worker);
  void went_down(const WorkerRef& worker, Instant now);
  void report(const WorkerRef& worker, const protocol::Report& report, Instant now);

  /// Forgets workers that have been down for `age`: names of pods do not come back.
  void forget_lost(Instant now, Duration age);

  const Worker* find(const NodeId& node) const;
  bool is_up(const WorkerRef& worker) const;
  const std::map<NodeId, Worker>& all() const { return workers_; }

  /// Nothing when no pair (or no prefill worker, when decode is not needed) of one fingerprint is
  /// up and takes work, and no decode worker that computes prompts of this length.
  std::optional<Placement> place(PlacementNeed need, std::mt19937_64& random) const;
  std::optional<WorkerRef> place_prefill(const PlacementNeed& need, std::mt19937_64& random) const;
  std::optional<WorkerRef> place_decode(const PlacementNeed& need, std::mt19937_64& random) const;
  /// By its last report, for the prompt and a token.
  bool says_it_has_room(const WorkerRef& worker, const PlacementNeed& need) const;
  /// Does it matter where a prompt's beginning is cached: is there a choice, or a decode worker
  /// that computes prompts itself?
  bool prefixes_matter() const;

  /// Counts work that was sent until a report shows it.
  void placed(const WorkerRef& worker, std::int64_t tokens, Instant now);

 private:
  struct Pending {
    std::int64_t tokens = 0;
    Instant since;
  };

  std::int64_t pending(const NodeId& node) const;
  bool takes_work(const Worker& worker) const { return worker.up && !worker.draining; }
  static bool holds(const Worker& worker, const PlacementNeed& need);
  /// Those that take work and whose cache is large enough. Caches differ in size: a request waits
  /// for a worker that is away rather than be refused for good by a small one. When no known cache
  /// is large enough, any worker says so best.
  std::vector<const Worker*> able(protocol::Role role, const Digest256& fingerprint,
                                  const PlacementNeed& need) const;
  /// The decode workers that can take it: without a prefill worker only those that compute prompts
  /// of any such length.
  std::vector<const Worker*> able_to_decode(const Digest256& fingerprint,
                                            const PlacementNeed& need) const;
  /// Has so little of it to compute, as far as is known, that it is asked before a prefill worker.
  bool may_compute(const WorkerRef& worker, const PlacementNeed& need) const;
  std::optional<WorkerRef> pick(const std::vector<const Worker*>& workers,
                                const PlacementNeed& need, std::mt19937_64& random) const;

  std::map<NodeId, Worker> workers_;
  std::map<NodeId, std::vector<Pending>> pending_;
};

}  // namespace baton::router
