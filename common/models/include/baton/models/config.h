// Models are data: every size and choice of a decoder-only transformer. A family is a table of
// metadata keys, defaults and tensor names, not a subclass.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "baton/base/result.h"
#include "baton/kernels/kernels.h"
#include "baton/modelfile/model_file.h"

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
  /// Each pair's frequency is divided by its factor; rotary_dim / 2 values from the file's tensor
  /// of factors (which replaces `scaling`), or empty.
  std::vector<float> frequency_factors = {};

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
  bool attention_output_bias = false;
  bool ffn_bias = false;
  bool tied_output = false;
  std::vector<LayerGroup> groups;
  std::vector<RopeConfig> ropes;    ///< distinct rope settings
  std::vector<int> rope_of_layer;   ///< index into ropes
  std::vector<int> group_of_layer;  ///< index into groups
  std::vector<int> index_in_group;  ///< position of the layer among its group's layers
};

/// The configuration that a model file declares, every value range-checked. Which biases there are
/// and whether the output is tied follows from the tensors of the file; the shapes of tensors are
/// checked later, by weights::load.
/// Errors: bad_model_file that names the field (an architecture, rope scaling or layer structure
/// that Baton does not know is refused, never approximated).
Result<ModelConfig> config_from(const modelfile::ModelFile& file);

struct FingerprintField {
  std::string name;
  std::string value;

  friend bool operator==(const FingerprintField&, const FingerprintField&) = default;
};

/// Everything in the configuration that changes a computed bit, in a fixed order; equal lists mean
/// equal computation. `name`, a remark for people, is not among them.
std::vector<FingerprintField> fingerprint_fields(const ModelConfig& config);

}  // namespace baton::models
