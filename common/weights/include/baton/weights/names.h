// What the tensors of a model are called in a file: one table per family.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace baton::weights {

/// The role of a tensor. Those from `attention_norm` on exist once per layer.
enum class Part : std::uint8_t {
  token_embedding,
  output_norm,
  output,
  rope_factors,
  attention_norm,
  q,
  k,
  v,
  q_bias,
  k_bias,
  v_bias,
  q_norm,
  k_norm,
  attention_output,
  attention_output_bias,
  post_attention_norm,
  ffn_norm,
  gate,
  up,
  down,
  gate_bias,
  up_bias,
  down_bias,
  post_ffn_norm,
};

/// The tensor's name, e.g. "blk.3.attn_q.weight"; nothing when the family has no such part.
/// `layer` is ignored for parts that exist once.
std::optional<std::string> tensor_name(std::string_view family, Part part, int layer = 0);

}  // namespace baton::weights
