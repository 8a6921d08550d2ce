#include "loaded_model.h"

#include <algorithm>

#include <fmt/format.h>

#include "baton/base/log.h"
#include "baton/engine/cache_shape.h"
#include "baton/engine/sampler.h"
#include "baton/modelfile/model_file.h"
#include "baton/weights/content_digest.h"

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

handoff::Geometry geometry_of(const models::ModelConfig& model, const tensor::UnitLayout& unit) {
  handoff::Geometry geometry;
  geometry.cache_dtype = static_cast<std::uint32_t>(unit.dtype);
  geometry.unit_bytes = unit.unit_bytes();
  for (const models::LayerGroup& group : model.groups) {
    handoff::GroupGeometry& to = geometry.groups.emplace_back();
    to.window = group.window;
    to.layers.assign(group.layers.begin(), group.layers.end());
  }
  return geometry;
}

/// Everything that makes two caches interchangeable, in a fixed order.
Result<protocol::Fingerprint> fingerprint_of(const WorkerConfig& config,
                                             const models::ModelConfig& model,
                                             kernels::Kernels& kernels, const std::string& bundle) {
  BATON_ASSIGN(const Digest256 weights,
               weights::content_digest(config.model, weights::cache_directory()));
  protocol::Fingerprint::Fields fields = {
      {"weights", weights.to_string()},
      {"numerics_class", std::string(kernels.numerics_class())},
      {"numerics_probe", kernels.probe().to_string()},
      {"cache_dtype", std::string(tensor::name(config.cache_dtype))},
      {"unit_layout", std::to_string(tensor::unit_layout_revision)},
      {"tokenizer", protocol::sha256(bundle).to_string()},
      {"sampler", std::to_string(engine::sampler_revision)},
  };
  for (const models::FingerprintField& field : models::fingerprint_fields(model)) {
    fields.emplace_back("model." + field.name, field.value);
  }
  return protocol::Fingerprint(std::move(fields));
}

Result<void> check_memory(const LoadedModel& loaded, std::size_t cache_bytes) {
  const std::uint64_t limit = memory_limit_bytes();
  const std::size_t weights = loaded.model->weight_bytes();
  log_info("memory: weights {:.0f} MiB, cache {:.0f} MiB ({} tokens), limit {:.0f} MiB",
           static_cast<double>(weights) / mib, static_cast<double>(cache_bytes) / mib,
           loaded.cache_tokens, static_cast<double>(limit) / mib);
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

Result<LoadedModel> load_model(const WorkerConfig& config,
                               const std::function<void(double)>& progress) {
  LoadedModel out;
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
  const std::int64_t context =
      config.context_length > 0 ? config.context_length : model.context_length;
  out.limits = {model.vocabulary, context};

  const engine::CacheShape shape = cache_shape(config, model, context);
  const kvcache::ArenaConfig arena = engine::arena_config(model, shape);
  out.cache_tokens = shape.positions;
  BATON_TRY(check_memory(out, engine::cache_bytes(arena)));
  BATON_ASSIGN(kvcache::Arena memory, kvcache::Arena::create(arena));
  out.arena = std::make_unique<kvcache::Arena>(std::move(memory));
  out.pools = engine::pool_config(model, arena, config.poison_freed);
  out.geometry = geometry_of(model, arena.unit);
  BATON_ASSIGN(out.fingerprint, fingerprint_of(config, model, *out.kernels, out.bundle));
  return out;
}

}  // namespace baton::worker
