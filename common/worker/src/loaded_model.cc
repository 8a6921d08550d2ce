#include "loaded_model.h"

#include "baton/engine/cache_shape.h"
#include "baton/engine/sampler.h"

namespace baton::worker {
namespace {

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
protocol::Fingerprint fingerprint_of(const EngineModel& loaded) {
  kernels::Kernels& kernels = *loaded.kernels;
  protocol::Fingerprint::Fields fields = {
      {"weights", loaded.weights_digest.to_string()},
      {"numerics_class", std::string(kernels.numerics_class())},
      {"numerics_probe", kernels.probe().to_string()},
      {"cache_dtype", std::string(tensor::name(loaded.cache.dtype))},
      {"unit_layout", std::to_string(tensor::unit_layout_revision)},
      {"tokenizer", protocol::sha256(loaded.bundle).to_string()},
      {"sampler", std::to_string(engine::sampler_revision)},
  };
  for (const models::FingerprintField& field : models::fingerprint_fields(loaded.model->config())) {
    fields.emplace_back("model." + field.name, field.value);
  }
  return protocol::Fingerprint(std::move(fields));
}

}  // namespace

Result<LoadedModel> load_model(const WorkerConfig& config,
                               const std::function<void(double)>& progress) {
  BATON_ASSIGN(EngineModel base, load_engine_model(config, progress));
  LoadedModel out;
  static_cast<EngineModel&>(out) = std::move(base);
  const models::ModelConfig& model = out.model->config();
  out.limits = {model.vocabulary, out.context_length};
  out.cache_tokens = out.cache.positions;

  const kvcache::ArenaConfig arena = engine::arena_config(model, out.cache);
  BATON_ASSIGN(kvcache::Arena memory, kvcache::Arena::create(arena));
  out.arena = std::make_unique<kvcache::Arena>(std::move(memory));
  out.pools = engine::pool_config(model, arena, config.poison_freed);
  out.geometry = geometry_of(model, arena.unit);
  out.fingerprint = fingerprint_of(out);
  return out;
}

}  // namespace baton::worker
