#include <fmt/format.h>
#include <fmt/ranges.h>

#include "baton/models/config.h"

namespace baton::models {
namespace {

std::string_view name_of(kernels::Activation activation) {
  return activation == kernels::Activation::silu ? "silu" : "gelu_tanh";
}

std::string_view name_of(RopeScaling scaling) {
  switch (scaling) {
    case RopeScaling::none:
      return "none";
    case RopeScaling::linear:
      return "linear";
    case RopeScaling::llama3:
      return "llama3";
  }
  return "";
}

/// Floats are printed so that they read back to the same bits and to no others.
class FieldList {
 public:
  template <typename T>
  void add(std::string name, const T& value) {
    fields_.push_back({std::move(name), fmt::format("{}", value)});
  }
  template <typename T>
  void add_all(std::string name, const std::vector<T>& values) {
    fields_.push_back({std::move(name), fmt::format("{}", fmt::join(values, " "))});
  }
  std::vector<FingerprintField> take() { return std::move(fields_); }

 private:
  std::vector<FingerprintField> fields_;
};

void add_rope(FieldList& list, const std::string& prefix, const RopeConfig& rope) {
  list.add(prefix + "base", rope.base);
  list.add(prefix + "rotary_dim", rope.rotary_dim);
  list.add(prefix + "interleaved", rope.interleaved);
  list.add(prefix + "scaling", name_of(rope.scaling));
  list.add(prefix + "factor", rope.factor);
  list.add(prefix + "low_freq_factor", rope.low_freq_factor);
  list.add(prefix + "high_freq_factor", rope.high_freq_factor);
  list.add(prefix + "original_context", rope.original_context);
  list.add_all(prefix + "frequency_factors", rope.frequency_factors);
}

}  // namespace

std::vector<FingerprintField> fingerprint_fields(const ModelConfig& config) {
  FieldList list;
  list.add("architecture", config.family);
  list.add("layers", config.layers);
  list.add("width", config.width);
  list.add("heads", config.heads);
  list.add("kv_heads", config.kv_heads);
  list.add("head_dim", config.head_dim);
  list.add("ffn_width", config.ffn_width);
  list.add("vocabulary", config.vocabulary);
  list.add("context_length", config.context_length);
  list.add("norm", "rms");
  list.add("norm_epsilon", config.norm_epsilon);
  list.add("attention_scale", config.attention_scale);
  list.add("embedding_scale", config.embedding_scale);
  list.add("attention_softcap", config.attention_softcap);
  list.add("logit_softcap", config.logit_softcap);
  list.add("activation", name_of(config.activation));
  list.add("qk_norm", config.qk_norm);
  list.add("post_norms", config.post_norms);
  list.add("qkv_bias", config.qkv_bias);
  list.add("attention_output_bias", config.attention_output_bias);
  list.add("ffn_bias", config.ffn_bias);
  list.add("tied_output", config.tied_output);
  list.add("position_scheme", "rope");
  for (std::size_t i = 0; i < config.ropes.size(); ++i) {
    add_rope(list, fmt::format("rope.{}.", i), config.ropes[i]);
  }
  for (std::size_t i = 0; i < config.groups.size(); ++i) {
    list.add(fmt::format("group.{}.window", i), config.groups[i].window);
    list.add_all(fmt::format("group.{}.layers", i), config.groups[i].layers);
  }
  list.add_all("rope_of_layer", config.rope_of_layer);
  return list.take();
}

}  // namespace baton::models
