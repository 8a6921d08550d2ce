// The step loop's middle: plan in, forward pass, sampling, events out. One thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "baton/base/ids.h"
#include "baton/base/result.h"
#include "baton/base/time.h"
#include "baton/engine/core/sequence.h"
#include "baton/engine/core/step.h"
#include "baton/engine/core/step_events.h"
#include "baton/engine/sampler.h"
#include "baton/kvcache/arena.h"
#include "baton/kvcache/core/block_pools.h"
#include "baton/models/model.h"

namespace baton::engine {

/// Called on the engine thread between layers.
class StepWatcher {
 public:
  virtual ~StepWatcher() = default;
  /// The layer's K and V of every row of this step are final in the cache.
  virtual void layer_done(int layer) = 0;
  /// True when the sequence was cancelled: its rows leave the step here, its blocks are freed at
  /// once and it is removed from the table.
  virtual bool cancelled(SequenceId sequence) = 0;
};

/// What the forward pass itself was given, counted where it is called.
struct EngineCounters {
  std::uint64_t steps = 0;
  std::uint64_t prefill_rows = 0;
  std::uint64_t decode_rows = 0;
};

class Engine {
 public:
  /// All outlive the engine. Pools and arena have the same groups and block size. When the pools
  /// record freed blocks, the engine poisons them.
  Engine(models::Model& model, kvcache::Arena& arena, kvcache::BlockPools& pools,
         SequenceTable& table);

  /// Runs one step, with denormals off on the calling thread from then on. Fails as prepare_step()
  /// and models::Model::forward() do; then no sequence has moved. A sequence that samples its last
  /// token stays in the table, with its blocks, until it is removed.
  Result<StepEvents> step(const StepPlan& plan, StepWatcher* watcher);

  const EngineCounters& counters() const { return counters_; }

  /// Fills freed blocks with 0xDD (test builds). step() does so too; whoever else writes into
  /// newly taken blocks calls it before.
  void poison_freed();

 private:
  struct Batch;
  class Adapter;

  void add_rows(Batch& batch, SequenceId id, std::int64_t first, std::int64_t count);
  void finish_rows(const Batch& batch, const models::StepOutput& output, StepEvents& events);
  void sample(SequenceId id, std::span<const float> logits, StepEvents& events);

  models::Model& model_;
  kvcache::Arena& arena_;
  kvcache::BlockPools& pools_;
  SequenceTable& table_;
  Sampler sampler_;
  EngineCounters counters_;
};

/// XXH3-128 of the row's bytes.
Digest128 digest_of(std::span<const float> logits);

}  // namespace baton::engine
