// Everything that a worker makes of its model file and configuration before it can serve.
#pragma once

#include <functional>
#include <memory>

#include "baton/engine/core/planner.h"
#include "baton/handoff/core/types.h"
#include "baton/kvcache/arena.h"
#include "baton/kvcache/core/block_pools.h"
#include "baton/protocol/fingerprint.h"
#include "baton/worker/engine_model.h"

namespace baton::worker {

struct LoadedModel : EngineModel {
  std::unique_ptr<kvcache::Arena> arena;
  kvcache::PoolConfig pools;
  handoff::Geometry geometry;
  protocol::Fingerprint fingerprint;
  engine::ModelLimits limits;
  std::int64_t cache_tokens = 0;
};

/// `progress` is called with 0 to 1 while weights are read and packed.
Result<LoadedModel> load_model(const WorkerConfig& config,
                               const std::function<void(double)>& progress);

}  // namespace baton::worker
