#include "baton/worker/engine_model.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "baton/base/log.h"
#include "baton/kernels/workspace.h"
#include "baton/metrics/memory.h"
#include "baton/modelfile/model_file.h"
#include "baton/models/fastest_set.h"
#include "baton/models/memory.h"
#include "baton/tokenizer/spec.h"
#include "baton/weights/content_digest.h"
#include "baton/worker/machine.h"
#include "baton/worker/processors.h"

#include "loaded_model.h"
#include "memory_need.h"

namespace baton::worker {
namespace {

double mib(std::uint64_t bytes) { return static_cast<double>(bytes) / (1024.0 * 1024.0); }

Result<void> check_heads(const models::ModelConfig& model, const engine::CacheShape& shape) {
  if (engine::arena_config(model, shape).unit.valid()) return ok();
  return Error(Reason::bad_config,
               fmt::format("cache_dtype: {} needs heads of a multiple of {} values, the model's "
                           "have {}; choose bf16 or f32",
                           tensor::name(shape.dtype), tensor::scale_channels, model.head_dim));
}

/// Resolves the positions of `out.cache`; needs its kernels.
MemoryNeed plan_memory(const WorkerConfig& config, const modelfile::ModelFile& file,
                       const models::ModelConfig& model, EngineModel& out) {
  engine::CacheShape& shape = out.cache;
  const bool mixed = models::mixed_gate_up(file, model);
  const auto steps_with = [&](std::int64_t positions) {
    shape.positions = positions;
    shape.positions = engine::capacity(shape);  // it is what is told to routers and people
    models::StepSize step = largest_step(config.token_budget, out.context_length, shape);
    step.threads = out.pool->threads();
    step.mixed_gate_up = mixed;
    return models::most_step_bytes(model, *out.kernels, step) +
           static_cast<std::uint64_t>(step.threads) * kernels::thread_stack_bytes;
  };
  MemoryNeed need;
  need.weights = file.size_bytes();  // packed they are about as large
  // A longer context than the model's own is refused by its name, later.
  need.position_tables =
      models::position_table_bytes(model, std::min(out.context_length, model.context_length));
  std::int64_t positions = config.cache_tokens;
  if (positions == 0) {
    need.steps = steps_with(2 * out.context_length);
    positions =
        default_cache_positions(model, shape, out.context_length, need, memory_limit_bytes());
  }
  need.steps = steps_with(positions);
  need.cache = engine::cache_bytes(engine::arena_config(model, shape));
  return need;
}

Result<void> start_kernels(const WorkerConfig& config, const modelfile::ModelFile& file,
                           EngineModel& out) {
  BATON_ASSIGN(const ProcessorPlan plan, plan_processors(config.cpus, config.threads));
  out.pool = std::make_unique<kernels::ThreadPool>(plan.threads, plan.pinned);
  if (out.pool->threads() < plan.threads) {
    return Error(
        Reason::bad_config,
        fmt::format("threads: {} kernel threads cannot be had, the system gave {}; ask for "
                    "fewer or raise its limit of threads",
                    plan.threads, out.pool->threads()));
  }
  log_info("{} kernel thread{} {}: {}", plan.threads, plan.threads == 1 ? "" : "s",
           out.pool->pinned() ? "pinned to " + processors_text(plan.pinned) : "not pinned",
           plan.why);
  const std::string_view set = config.kernels == "cpu" ? models::fastest_set(file) : config.kernels;
  BATON_ASSIGN(out.kernels, kernels::make_kernels(set, *out.pool));
  log_info("kernels {}, numerics class {}", out.kernels->set_name(), out.kernels->numerics_class());
  return ok();
}

void log_memory(const EngineModel& loaded, const MemoryNeed& need) {
  const auto mapped = metrics::memory_share().value_or(metrics::MemoryShare());
  log_info(
      "memory: weights {:.0f} MiB{}, position tables {:.0f} MiB, cache {:.0f} MiB ({} tokens), "
      "steps up to {:.0f} MiB, limit {:.0f} MiB, in huge pages so far {:.0f} MiB",
      mib(need.weights), loaded.model->weights_shared() ? " (shared)" : "",
      mib(need.position_tables), mib(need.cache), loaded.cache.positions, mib(need.steps),
      mib(memory_limit_bytes()), mib(mapped.huge_page_bytes));
}

}  // namespace

Result<EngineModel> load_engine_model(const WorkerConfig& config,
                                      const std::function<void(double)>& progress) {
  EngineModel out;
  BATON_ASSIGN(modelfile::ModelFile file, modelfile::ModelFile::open(config.model));
  BATON_ASSIGN(models::ModelConfig model_config, models::config_from(file));
  out.context_length =
      config.context_length > 0 ? config.context_length : model_config.context_length;
  out.cache.block_units = config.block_units;
  out.cache.dtype = config.cache_dtype;
  out.cache.chunk_rows = config.chunk_rows;
  BATON_TRY(start_kernels(config, file, out));
  MemoryNeed need = plan_memory(config, file, model_config, out);
  BATON_TRY(check_heads(model_config, out.cache));
  BATON_TRY(check_memory(need, memory_limit_bytes()));
  BATON_ASSIGN(tokenizer::TokenizerSpec spec, tokenizer::spec_from(file.metadata()));
  out.bundle = tokenizer::serialise(spec);
  out.end_ids = tokenizer::end_of_generation_ids(spec);

  models::LoadOptions options;
  const std::filesystem::path cache = weights::cache_directory();
  BATON_ASSIGN(out.weights_digest, weights::content_digest(*file.file(), cache));
  options.packed_cache = cache;
  options.content = out.weights_digest;
  options.context_length = config.context_length;
  options.progress = progress;
  BATON_ASSIGN(out.model, models::Model::load(file, model_config, *out.kernels, options));
  need.weights = out.model->weight_bytes() - need.position_tables;
  log_memory(out, need);
  BATON_TRY(check_memory(need, memory_limit_bytes()));
  return out;
}

}  // namespace baton::worker
