// From a model file's fields to a ModelConfig.
#include "baton/models/config.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "baton/weights/model_weights.h"
#include "baton/weights/names.h"

#include "families.h"
#include "field_reader.h"

namespace baton::models {
namespace {

using weights::Part;

constexpr Range<std::int64_t> layer_range{1, 1024};
constexpr Range<std::int64_t> width_range{1, 1 << 17};
constexpr Range<std::int64_t> head_range{1, 1024};
constexpr Range<std::int64_t> head_dim_range{2, 1024};
constexpr Range<std::int64_t> ffn_range{1, 1 << 20};
constexpr Range<std::int64_t> vocabulary_range{1, 1 << 22};
constexpr Range<std::int64_t> context_range{1, 1 << 24};
constexpr Range<float> epsilon_range{1e-12f, 1};
constexpr Range<float> base_range{1.001f, 1e12f};
constexpr Range<float> factor_range{1e-3f, 1e4f};
constexpr Range<float> positive_range{1e-6f, 1e6f};

class ConfigReader {
 public:
  ConfigReader(const modelfile::ModelFile& file, const Family& family)
      : file_(file), family_(family), fields_(file.metadata(), family.name) {}

  Result<ModelConfig> run() {
    BATON_TRY(refuse_unknown_computation());
    BATON_TRY(read_sizes());
    BATON_TRY(read_vocabulary());
    BATON_TRY(read_scales());
    read_structure();
    BATON_TRY(read_ropes());
    BATON_TRY(read_groups());
    return std::move(config_);
  }

 private:
  /// Fields that would change the computation in a way that the forward pass does not do.
  Result<void> refuse_unknown_computation() {
    for (const char* name : {"expert_count", "expert_used_count"}) {
      BATON_ASSIGN(const auto experts, fields_.find_integer(name, {0, 1 << 20}));
      if (experts.value_or(0) != 0) return fields_.bad(name, "experts are not supported");
    }
    BATON_ASSIGN(const auto causal, file_.metadata().find_boolean(fields_.key("attention.causal")));
    if (!causal.value_or(true)) return fields_.bad("attention.causal", "only causal attention");
    for (const char* name : {"attention.clamp_kqv", "attention.max_alibi_bias"}) {
      BATON_TRY(fields_.find_real(name, {0, 0}));
    }
    for (const char* name :
         {"logit_scale", "residual_scale", "embedding_scale", "rope.scaling.attn_factor"}) {
      BATON_TRY(fields_.find_real(name, {1, 1}));
    }
    return ok();
  }

  Result<void> read_sizes() {
    config_.family = family_.name;
    BATON_ASSIGN(const auto name, file_.metadata().find_string("general.name"));
    config_.name = modelfile::printable(name.value_or(""));
    BATON_ASSIGN(config_.context_length, fields_.integer("context_length", context_range));
    BATON_TRY(read_int(config_.layers, "block_count", layer_range));
    BATON_TRY(read_int(config_.width, "embedding_length", width_range));
    BATON_TRY(read_uniform(config_.ffn_width, "feed_forward_length", ffn_range));
    BATON_TRY(read_uniform(config_.heads, "attention.head_count", head_range));
    BATON_ASSIGN(const auto kv_heads,
                 fields_.find_uniform("attention.head_count_kv", {1, config_.heads}));
    config_.kv_heads = static_cast<int>(kv_heads.value_or(config_.heads));
    if (config_.heads % config_.kv_heads != 0) {
      return fields_.bad("attention.head_count_kv",
                         fmt::format("is {}, which does not divide the {} query heads",
                                     config_.kv_heads, config_.heads));
    }
    return read_head_dim();
  }

  Result<void> read_head_dim() {
    BATON_ASSIGN(const auto declared, fields_.find_uniform("attention.key_length", head_dim_range));
    if (!declared && config_.width % config_.heads != 0) {
      return fields_.bad("attention.key_length",
                         "is missing, and the heads do not divide the width");
    }
    config_.head_dim = static_cast<int>(declared.value_or(config_.width / config_.heads));
    if (config_.head_dim < head_dim_range.low || config_.head_dim > head_dim_range.high ||
        config_.head_dim % 2 != 0) {
      return fields_.bad("attention.key_length",
                         fmt::format("gives heads of {}, expected an even number from {} to {}",
                                     config_.head_dim, head_dim_range.low, head_dim_range.high));
    }
    BATON_TRY(fields_.find_uniform("attention.value_length", {config_.head_dim, config_.head_dim}));
    return ok();
  }

  /// The embedding's rows decide; the other places that know the number must agree.
  Result<void> read_vocabulary() {
    const std::string name = *weights::tensor_name(family_.name, Part::token_embedding);
    BATON_ASSIGN(const modelfile::TensorInfo* embedding, file_.tensor(name));
    const auto rows = static_cast<std::int64_t>(std::min<std::uint64_t>(
        embedding->dims[1], static_cast<std::uint64_t>(vocabulary_range.high) + 1));
    if (rows > vocabulary_range.high) {
      return Error(Reason::bad_model_file,
                   fmt::format("tensor '{}': {} tokens, expected at most {}", name,
                               embedding->dims[1], vocabulary_range.high));
    }
    config_.vocabulary = static_cast<int>(rows);
    BATON_TRY(fields_.find_integer("vocab_size", {rows, rows}));
    BATON_ASSIGN(const auto tokens, file_.metadata().find_strings("tokenizer.ggml.tokens"));
    if (tokens && static_cast<std::int64_t>(tokens->size()) > rows) {
      return modelfile::bad_field(
          "tokenizer.ggml.tokens",
          fmt::format("has {} tokens, but the embedding has {} rows", tokens->size(), rows));
    }
    return ok();
  }

  Result<void> read_scales() {
    BATON_ASSIGN(config_.norm_epsilon,
                 fields_.real("attention.layer_norm_rms_epsilon", epsilon_range));
    const bool by_width = config_.layers == family_.width_scaled_attention_layers;
    const double scaled_by = by_width ? static_cast<double>(config_.width) / config_.heads
                                      : static_cast<double>(config_.head_dim);
    BATON_ASSIGN(config_.attention_scale,
                 fields_.real_or("attention.scale", static_cast<float>(1 / std::sqrt(scaled_by)),
                                 positive_range));
    if (family_.scaled_embeddings) {
      config_.embedding_scale = static_cast<float>(std::sqrt(static_cast<double>(config_.width)));
    }
    BATON_ASSIGN(config_.attention_softcap,
                 fields_.real_or("attn_logit_softcapping", 0, {0, positive_range.high}));
    BATON_ASSIGN(config_.logit_softcap,
                 fields_.real_or("final_logit_softcapping", 0, {0, positive_range.high}));
    return ok();
  }

  void read_structure() {
    config_.activation = family_.activation;
    config_.qk_norm = family_.qk_norm;
    config_.post_norms = family_.post_norms;
    config_.tied_output = !has(Part::output);
    config_.qkv_bias = has(Part::q_bias);
    config_.attention_output_bias = has(Part::attention_output_bias);
    config_.ffn_bias = has(Part::gate_bias);
  }

  bool has(Part part) const {
    const auto name = weights::tensor_name(family_.name, part);
    return name && file_.find_tensor(*name) != nullptr;
  }

  Result<void> read_ropes() {
    RopeConfig rope;
    rope.interleaved = family_.interleaved_rope;
    BATON_ASSIGN(rope.base, fields_.real_or("rope.freq_base", family_.rope_base, base_range));
    BATON_ASSIGN(
        const std::int64_t rotary,
        fields_.integer_or("rope.dimension_count", config_.head_dim, {2, config_.head_dim}));
    if (rotary % 2 != 0) return fields_.bad("rope.dimension_count", "is odd");
    rope.rotary_dim = static_cast<int>(rotary);
    BATON_TRY(read_scaling(rope));
    BATON_TRY(read_factors(rope));
    config_.ropes = {rope};
    if (family_.local_rope_base == 0) return ok();
    RopeConfig local;
    local.interleaved = rope.interleaved;
    local.rotary_dim = rope.rotary_dim;
    BATON_ASSIGN(local.base,
                 fields_.real_or("rope.freq_base_swa", family_.local_rope_base, base_range));
    config_.ropes.push_back(local);
    return ok();
  }

  Result<void> read_scaling(RopeConfig& rope) {
    BATON_ASSIGN(const auto type, file_.metadata().find_string(fields_.key("rope.scaling.type")));
    if (!type) {
      // The name of the field in files from before there were types.
      BATON_ASSIGN(rope.factor, fields_.real_or("rope.scale_linear", 1, factor_range));
      rope.scaling = rope.factor == 1 ? RopeScaling::none : RopeScaling::linear;
      return ok();
    }
    if (*type == "none") return ok();
    if (*type != "linear" && *type != "llama3") {
      return fields_.bad("rope.scaling.type", "is '" + modelfile::printable(*type) +
                                                  "', expected none, linear or llama3");
    }
    BATON_ASSIGN(rope.factor, fields_.real("rope.scaling.factor", factor_range));
    rope.scaling = *type == "linear" ? RopeScaling::linear : RopeScaling::llama3;
    if (rope.scaling == RopeScaling::linear) return ok();
    BATON_ASSIGN(rope.low_freq_factor,
                 fields_.real_or("rope.scaling.low_freq_factor", 1, factor_range));
    BATON_ASSIGN(rope.high_freq_factor,
                 fields_.real_or("rope.scaling.high_freq_factor", 4, factor_range));
    if (rope.high_freq_factor <= rope.low_freq_factor) {
      return fields_.bad("rope.scaling.high_freq_factor", "is not above low_freq_factor");
    }
    BATON_ASSIGN(rope.original_context,
                 fields_.integer("rope.scaling.original_context_length", context_range));
    return ok();
  }

  /// Converters write llama3 scaling as a tensor that already holds each pair's divisor.
  Result<void> read_factors(RopeConfig& rope) {
    if (!has(Part::rope_factors)) return ok();
    const std::string name = *weights::tensor_name(family_.name, Part::rope_factors);
    if (rope.scaling == RopeScaling::linear) {
      return fields_.bad("rope.scaling.type", "is linear beside a tensor '" + name + "'");
    }
    BATON_ASSIGN(rope.frequency_factors, weights::read_vector(file_, name, rope.rotary_dim / 2));
    for (const float factor : rope.frequency_factors) {
      if (!(factor >= factor_range.low && factor <= factor_range.high)) {
        return Error(Reason::bad_model_file,
                     fmt::format("tensor '{}': a factor is {}, expected {} to {}", name, factor,
                                 factor_range.low, factor_range.high));
      }
    }
    rope.scaling = RopeScaling::none;
    rope.factor = 1;
    return ok();
  }

  Result<void> read_groups() {
    BATON_ASSIGN(const auto declared,
                 fields_.find_integer("attention.sliding_window", {0, context_range.high}));
    if (!declared && family_.window_required) {
      return fields_.bad("attention.sliding_window", "is missing");
    }
    auto window = static_cast<int>(declared.value_or(0));
    // A window that no query can leave is full attention.
    if (window >= config_.context_length) window = 0;
    BATON_ASSIGN(const std::vector<bool> local, local_layers(declared.value_or(0) > 0));
    for (int layer = 0; layer < config_.layers; ++layer) {
      const bool is_local = local[static_cast<std::size_t>(layer)];
      config_.rope_of_layer.push_back(is_local && config_.ropes.size() > 1 ? 1 : 0);
      add_to_group(layer, is_local ? window : 0);
    }
    return ok();
  }

  /// Which layers see only the window.
  Result<std::vector<bool>> local_layers(bool windowed) {
    const auto layers = static_cast<std::size_t>(config_.layers);
    std::vector<bool> local(layers, windowed);
    if (!windowed) return local;
    constexpr const char* field = "attention.sliding_window_pattern";
    const modelfile::MetadataEntry* entry = file_.metadata().find(fields_.key(field));
    if (entry != nullptr && entry->type == modelfile::ValueType::array) {
      BATON_ASSIGN(const modelfile::IntArray flags, file_.metadata().ints(fields_.key(field)));
      if (flags.size() != layers) return fields_.bad(field, "needs one value per layer");
      for (std::size_t layer = 0; layer < layers; ++layer) local[layer] = flags[layer] != 0;
      return local;
    }
    BATON_ASSIGN(const std::int64_t pattern,
                 fields_.integer_or(field, family_.window_pattern, {1, layer_range.high}));
    if (pattern == 0) return local;
    for (std::size_t layer = 0; layer < layers; ++layer) {
      local[layer] = (static_cast<std::int64_t>(layer) + 1) % pattern != 0;
    }
    return local;
  }

  void add_to_group(int layer, int window) {
    auto group = std::ranges::find(config_.groups, window, &LayerGroup::window);
    if (group == config_.groups.end()) {
      config_.groups.push_back({window, {}});
      group = config_.groups.end() - 1;
    }
    config_.group_of_layer.push_back(static_cast<int>(group - config_.groups.begin()));
    config_.index_in_group.push_back(static_cast<int>(group->layers.size()));
    group->layers.push_back(layer);
  }

  Result<void> read_int(int& value, std::string_view name, Range<std::int64_t> range) {
    BATON_ASSIGN(const std::int64_t found, fields_.integer(name, range));
    value = static_cast<int>(found);
    return ok();
  }

  Result<void> read_uniform(int& value, std::string_view name, Range<std::int64_t> range) {
    BATON_ASSIGN(const auto found, fields_.find_uniform(name, range));
    if (!found) return fields_.bad(name, "is missing");
    value = static_cast<int>(*found);
    return ok();
  }

  const modelfile::ModelFile& file_;
  const Family& family_;
  FieldReader fields_;
  ModelConfig config_;
};

}  // namespace

Result<ModelConfig> config_from(const modelfile::ModelFile& file) {
  BATON_ASSIGN(const std::string_view architecture, file.metadata().string("general.architecture"));
  const Family* family = find_family(architecture);
  if (family == nullptr) {
    return modelfile::bad_field(
        "general.architecture",
        "is '" + modelfile::printable(architecture) + "', expected llama or gemma3");
  }
  return ConfigReader(file, *family).run();
}

}  // namespace baton::models
