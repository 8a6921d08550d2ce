#include "baton/worker/engine_model.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "baton/base/log.h"
#include "baton/metrics/memory.h"
#include "baton/modelfile/model_file.h"
#include "baton/tokenizer/spec.h"
#include "baton/weights/content_digest.h"
#include "baton/worker/machine.h"
#include "baton/worker/processors.h"

#include "loaded_model.h"

namespace baton::worker {
namespace {

constexpr double mib = 1024.0 * 1024.0;

std::uint64_t cache_bytes_of(const models::ModelConfig& model, const engine::CacheShape& shape) {
  return engine::cache_bytes(engine::arena_config(model, shape));
}

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
  const std::uint64_t wanted = cache_bytes_of(model, shape);
  if (wanted > budget) {
    const double share = static_cast<double>(budget) / static_cast<double>(wanted);
    shape.positions = std::max<std::int64_t>(
        1024, static_cast<std::int64_t>(static_cast<double>(shape.positions) * share));
  }
  return shape;
}

Result<void> check_heads(const models::ModelConfig& model, const engine::CacheShape& shape) {
  if (engine::arena_config(model, shape).unit.valid()) return ok();
  return Error(Reason::bad_config,
               fmt::format("cache_dtype: {} needs heads of a multiple of {} values, the model's "
                           "have {}; choose bf16 or f32",
                           tensor::name(shape.dtype), tensor::scale_channels, model.head_dim));
}

/// Weights and cache, and what a process without either takes.
Result<void> check_memory(std::uint64_t weights, std::uint64_t cache) {
  constexpr std::uint64_t rest = 32 * 1024 * 1024;
  const std::uint64_t limit = memory_limit_bytes();
  if (weights + cache + rest <= limit) return ok();
  return Error(
      Reason::bad_config,
      fmt::format("cache_tokens: weights and cache need {:.0f} MiB, the limit is {:.0f} "
                  "MiB; {}",
                  static_cast<double>(weights + cache + rest) / mib,
                  static_cast<double>(limit) / mib,
                  weights + rest > limit ? "the model alone is too large" : "lower cache_tokens"));
}

}  // namespace

Result<EngineModel> load_engine_model(const WorkerConfig& config,
                                      const std::function<void(double)>& progress) {
  EngineModel out;
  BATON_ASSIGN(modelfile::ModelFile file, modelfile::ModelFile::open(config.model));
  BATON_ASSIGN(models::ModelConfig model_config, models::config_from(file));
  const std::int64_t context =
      config.context_length > 0 ? config.context_length : model_config.context_length;
  out.cache = cache_shape(config, model_config, context);
  BATON_TRY(check_heads(model_config, out.cache));
  // Before anything is taken: an exceeded limit ends the process without a word. Packed weights are
  // about as large as the file.
  const std::uint64_t cache_bytes = cache_bytes_of(model_config, out.cache);
  BATON_TRY(check_memory(file.size_bytes(), cache_bytes));
  BATON_ASSIGN(tokenizer::TokenizerSpec spec, tokenizer::spec_from(file.metadata()));
  out.bundle = tokenizer::serialise(spec);
  out.end_ids = tokenizer::end_of_generation_ids(spec);

  BATON_ASSIGN(const ProcessorPlan plan, plan_processors(config.cpus, config.threads));
  out.pool = std::make_unique<kernels::ThreadPool>(plan.threads, plan.pinned);
  log_info("{} kernel thread{} {}: {}", plan.threads, plan.threads == 1 ? "" : "s",
           out.pool->pinned() ? "pinned to " + processors_text(plan.pinned) : "not pinned",
           plan.why);
  BATON_ASSIGN(out.kernels, kernels::make_kernels(config.kernels, *out.pool));
  models::LoadOptions options;
  const std::filesystem::path cache = weights::cache_directory();
  BATON_ASSIGN(out.weights_digest, weights::content_digest(*file.file(), cache));
  options.packed_cache = cache;
  options.content = out.weights_digest;
  options.context_length = config.context_length;
  options.progress = progress;
  BATON_ASSIGN(out.model, models::Model::load(file, model_config, *out.kernels, options));
  out.context_length = context;
  const std::uint64_t weights = out.model->weight_bytes();
  const auto mapped = metrics::memory_share().value_or(metrics::MemoryShare());
  log_info(
      "memory: weights {:.0f} MiB{}, cache {:.0f} MiB ({} tokens), limit {:.0f} MiB, in huge "
      "pages so far {:.0f} MiB",
      static_cast<double>(weights) / mib, out.model->weights_shared() ? " (shared)" : "",
      static_cast<double>(cache_bytes) / mib, out.cache.positions,
      static_cast<double>(memory_limit_bytes()) / mib,
      static_cast<double>(mapped.huge_page_bytes) / mib);
  BATON_TRY(check_memory(weights, cache_bytes));
  return out;
}

}  // namespace baton::worker
