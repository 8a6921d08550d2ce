// Models are data: every size and choice of a decoder-only transformer. A family is a table of
// metadata keys, defaults and tensor names, not a subclass.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "baton/kernels/kernels.h"

namespace baton::models {

/// Layers with one cache rule. window 0: full attention.
struct LayerGroup {
  int window = 0;
  std::vector<int> layers;  ///< ascending layer numbers
};

enum class RopeScaling : std::uint8_t { none, linear, llama3 };

struct RopeConfig {
  float base = 10'000;
  int rotary_dim = 0;
  bool interleaved = false;
  RopeScaling scaling = RopeScaling::none;
  float factor = 1;
  float low_freq_factor = 1;   ///< llama3
  float high_freq_factor = 4;  ///< llama3
  std::int64_t original_context = 8192;

  friend bool operator==(const RopeConfig&, const RopeConfig&) = default;
};

struct ModelConfig {
  std::string family;  ///< "llama", "gemma3"
  std::string name;    ///< general.name of the file, for people
  int layers = 0;
  int width = 0;
  int heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
  int ffn_width = 0;
  int vocabulary = 0;
  std::int64_t context_length = 0;
  float norm_epsilon = 1e-5f;
  float attention_scale = 0;  ///< 1 / sqrt(head_dim) unless the family says otherwise
  float embedding_scale = 1;
  float attention_softcap = 0;
  float logit_softcap = 0;
  kernels::Activation activation = kernels::Activation::silu;
  bool qk_norm = false;     ///< RMSNorm per head on q and k before rope
  bool post_norms = false;  ///< extra norms after attention and after the FFN (gemma)
  bool qkv_bias = false;
  bool tied_output = false;
  std::vector<LayerGroup> groups;
  std::vector<RopeConfig> ropes;    ///< distinct rope settings
  std::vector<int> rope_of_layer;   ///< index into ropes
  std::vector<int> group_of_layer;  ///< index into groups
  std::vector<int> index_in_group;  ///< position of the layer among its group's layers
};

}  // namespace baton::models
