#include "baton/models/model.h"

#include <utility>

#include <fmt/format.h>

#include "baton/models/memory.h"
#include "baton/models/rope_table.h"

#include "transformer.h"

namespace baton::models {
namespace {

/// More than any known model needs at its full context; a small file cannot ask for more (R14).
constexpr std::size_t max_rope_bytes = std::size_t{1} << 29;

Result<std::int64_t> context_of(const ModelConfig& config, const LoadOptions& options) {
  if (options.context_length == 0) return config.context_length;
  if (options.context_length < 0 || options.context_length > config.context_length) {
    return Error(Reason::bad_config,
                 fmt::format("context length {} is outside 1 to {}, the model's own",
                             options.context_length, config.context_length));
  }
  return options.context_length;
}

weights::Shape shape_of(const ModelConfig& config) {
  weights::Shape shape;
  shape.family = config.family;
  shape.layers = config.layers;
  shape.width = config.width;
  shape.heads = config.heads;
  shape.kv_heads = config.kv_heads;
  shape.head_dim = config.head_dim;
  shape.ffn_width = config.ffn_width;
  shape.vocabulary = config.vocabulary;
  shape.rope_factors = static_cast<int>(config.ropes.front().frequency_factors.size());
  shape.qk_norm = config.qk_norm;
  shape.post_norms = config.post_norms;
  shape.qkv_bias = config.qkv_bias;
  shape.attention_output_bias = config.attention_output_bias;
  shape.ffn_bias = config.ffn_bias;
  shape.tied_output = config.tied_output;
  return shape;
}

Result<void> check_rope_bytes(const ModelConfig& config, std::int64_t context_length) {
  const std::size_t bytes = position_table_bytes(config, context_length);
  if (bytes > max_rope_bytes) {
    return Error(Reason::bad_config,
                 fmt::format("a context of {} needs {} bytes of position tables, {} are allowed: "
                             "configure a shorter context",
                             context_length, bytes, max_rope_bytes));
  }
  return ok();
}

}  // namespace

Result<std::unique_ptr<Model>> Model::load(const modelfile::ModelFile& file,
                                           const ModelConfig& config, kernels::Kernels& kernels,
                                           const LoadOptions& options) {
  BATON_ASSIGN(const std::int64_t context_length, context_of(config, options));
  BATON_TRY(check_rope_bytes(config, context_length));
  BATON_ASSIGN(auto weights,
               weights::load(file, shape_of(config), kernels, options.progress,
                             weights::PackedCache{options.packed_cache, options.content}));
  std::vector<kernels::RopeTable> ropes;
  for (const RopeConfig& rope : config.ropes) {
    ropes.push_back(make_rope_table(rope, context_length));
  }
  return std::unique_ptr<Model>(
      std::make_unique<Transformer>(config, std::move(weights), std::move(ropes), kernels));
}

Result<std::unique_ptr<Model>> Model::load(const std::filesystem::path& path,
                                           kernels::Kernels& kernels, const LoadOptions& options) {
  BATON_ASSIGN(const auto file, modelfile::ModelFile::open(path));
  const auto with_path = [&](const Error& error) {
    return Error(error.reason(), fmt::format("{}: {}", path.string(), error.message()));
  };
  auto config = config_from(file);
  if (config.has_error()) return with_path(config.error());
  auto model = load(file, *config, kernels, options);
  if (model.has_error()) return with_path(model.error());
  return model;
}

}  // namespace baton::models
