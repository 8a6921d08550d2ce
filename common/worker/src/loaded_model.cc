#include "loaded_model.h"

#include "baton/engine/cache_shape.h"
#include "baton/engine/sampler.h"
#include "baton/weights/content_digest.h"

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
  BATON_ASSIGN(out.fingerprint, fingerprint_of(config, model, *out.kernels, out.bundle));
  return out;
}

}  // namespace baton::worker
