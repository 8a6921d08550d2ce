// A model made ready to compute: what a worker process and `baton complete --local` share.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "baton/engine/cache_shape.h"
#include "baton/kernels/kernels.h"
#include "baton/models/model.h"
#include "baton/worker/config.h"

namespace baton::worker {

struct EngineModel {
  std::unique_ptr<kernels::ThreadPool> pool;
  std::unique_ptr<kernels::Kernels> kernels;
  std::unique_ptr<models::Model> model;
  Digest256 weights_digest;  ///< of the model file
  std::string bundle;        ///< tokenizer and chat template, see tokenizer::serialise()
  std::vector<TokenId> end_ids;
  std::int64_t context_length = 0;  ///< longest sequence: configured, or the model's own
  engine::CacheShape cache;         ///< positions resolved; no memory taken yet
};

/// Uses model, threads, cpus, kernels, context_length and the cache's options of `config`.
/// `progress` is called with 0 to 1 while weights are read and packed. Reason::bad_model_file names
/// the field at fault; Reason::bad_config also when weights, cache and the largest step exceed the
/// memory limit or the kernel threads cannot be had.
Result<EngineModel> load_engine_model(const WorkerConfig& config,
                                      const std::function<void(double)>& progress);

}  // namespace baton::worker
