// What a worker measures. Handles are thread safe; each method is a verb.
#pragma once

#include <string>
#include <vector>

#include "baton/engine/engine.h"
#include "baton/kvcache/core/block_pools.h"
#include "baton/metrics/registry.h"
#include "baton/worker/core/node_core.h"

namespace baton::worker {

/// The labels of all reasons, in the order of their numbers.
metrics::LabelAxis reason_axis();

class Probe {
 public:
  Probe(metrics::Registry& registry, protocol::Role role);

  /// Makes the cache's series once the model and so its layer groups are known; before the engine
  /// starts, on the thread that exposes.
  void has_layer_groups(int groups);

  void counted(const Counted& event);
  void prefix_looked_up(const PrefixLookedUp& event);
  void prompt_ready(const PromptReady& event);
  void step_computed(const engine::EngineCounters& counters);
  void load_changed(const protocol::Load& load, const kvcache::BlockPools& pools);
  void units_refused(Reason reason) { units_refused_[static_cast<std::size_t>(reason)].add(); }
  void commit_refused(Reason reason) { failures_[static_cast<std::size_t>(reason)].add(); }
  void bytes_moved(std::uint64_t sent, std::uint64_t received);
  void frame_dropped(Reason reason) { dropped_[static_cast<std::size_t>(reason)].add(); }
  void loaded(double seconds) { load_seconds_.set(seconds); }

 private:
  struct CacheGroup {
    metrics::Gauge usage;
    metrics::Gauge available;
    metrics::Gauge cached;
    metrics::Gauge blocks;
    metrics::Gauge quarantined;
  };
  CacheGroup cache_group(int group);

  protocol::Role role_;
  metrics::Set<metrics::Counter> outcomes_;
  metrics::Set<metrics::Counter> refusals_;
  metrics::Set<metrics::Counter> failures_;
  metrics::Set<metrics::Counter> units_refused_;
  metrics::Set<metrics::Counter> dropped_;
  metrics::Counter leases_expired_;
  metrics::Counter orphans_freed_;
  metrics::Counter preemptions_;
  metrics::Histogram handoff_seconds_;
  metrics::Set<metrics::Counter> handoff_bytes_;
  metrics::Set<metrics::Counter> forward_rows_;
  metrics::Counter steps_;
  metrics::Counter prefix_queries_;
  metrics::Counter prefix_hits_;
  metrics::Set<metrics::Counter> prompt_tokens_;
  metrics::Gauge queue_depth_;
  metrics::Gauge running_;
  metrics::Gauge backlog_seconds_;
  metrics::Gauge handoffs_in_flight_;
  metrics::Gauge load_seconds_;
  metrics::Registry& registry_;
  std::vector<CacheGroup> cache_;  ///< by layer group; the first is there from the start
  engine::EngineCounters last_;
};

}  // namespace baton::worker
