#include "baton/worker/engine_model.h"

#include <algorithm>

#include <fmt/format.h>

#include "baton/base/log.h"
#include "baton/modelfile/model_file.h"
#include "baton/tokenizer/spec.h"

#include "loaded_model.h"

namespace baton::worker {
namespace {

constexpr double mib = 1024.0 * 1024.0;

engine::CacheShape cache_shape(const WorkerConfig& config, const models::ModelConfig& model,
                               std::int64_t context) {
  engine::CacheShape shape;
  shape.block_units = config.block_units;
  shape.dtype = config.cache_dtype;
  shape.chunk_rows = config.chunk_rows;
  shape.positions = config.cache_tokens;
  if (shape.positions > 0) return shape;
  shape.positions = 2 * context;
  const std::uint64_t budget = memory_limit_bytes() / 4;
  const std::uint64_t wanted = engine::cache_bytes(engine::arena_config(model, shape));
  if (wanted > budget) {
    const double share = static_cast<double>(budget) / static_cast<double>(wanted);
    shape.positions = std::max<std::int64_t>(
        1024, static_cast<std::int64_t>(static_cast<double>(shape.positions) * share));
  }
  return shape;
}

Result<void> check_memory(const EngineModel& loaded) {
  const std::uint64_t limit = memory_limit_bytes();
  const std::size_t weights = loaded.model->weight_bytes();
  const std::size_t cache_bytes =
      engine::cache_bytes(engine::arena_config(loaded.model->config(), loaded.cache));
  log_info("memory: weights {:.0f} MiB, cache {:.0f} MiB ({} tokens), limit {:.0f} MiB",
           static_cast<double>(weights) / mib, static_cast<double>(cache_bytes) / mib,
           loaded.cache.positions, static_cast<double>(limit) / mib);
  if (weights + cache_bytes > limit) {
    return Error(Reason::bad_config,
                 fmt::format("cache_tokens: weights and cache need {:.0f} MiB, the limit is {:.0f} "
                             "MiB; lower cache_tokens",
                             static_cast<double>(weights + cache_bytes) / mib,
                             static_cast<double>(limit) / mib));
  }
  return ok();
}

}  // namespace

Result<EngineModel> load_engine_model(const WorkerConfig& config,
                                      const std::function<void(double)>& progress) {
  EngineModel out;
  BATON_ASSIGN(modelfile::ModelFile file, modelfile::ModelFile::open(config.model));
  BATON_ASSIGN(models::ModelConfig model_config, models::config_from(file));
  BATON_ASSIGN(tokenizer::TokenizerSpec spec, tokenizer::spec_from(file.metadata()));
  out.bundle = tokenizer::serialise(spec);
  out.end_ids = tokenizer::end_of_generation_ids(spec);

  out.pool =
      std::make_unique<kernels::ThreadPool>(config.threads > 0 ? config.threads : usable_cores());
  BATON_ASSIGN(out.kernels, kernels::make_kernels(config.kernels, *out.pool));
  models::LoadOptions options;
  options.context_length = config.context_length;
  options.progress = progress;
  BATON_ASSIGN(out.model, models::Model::load(file, model_config, *out.kernels, options));
  const models::ModelConfig& model = out.model->config();
  out.context_length = config.context_length > 0 ? config.context_length : model.context_length;
  out.cache = cache_shape(config, model, out.context_length);
  BATON_TRY(check_memory(out));
  return out;
}

}  // namespace baton::worker
