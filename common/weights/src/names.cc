#include "baton/weights/names.h"

#include <algorithm>
#include <span>

namespace baton::weights {
namespace {

/// "{}" stands for the layer's number.
struct Name {
  Part part;
  std::string_view pattern;
};

constexpr Name llama[] = {
    {Part::token_embedding, "token_embd.weight"},
    {Part::output_norm, "output_norm.weight"},
    {Part::output, "output.weight"},
    {Part::rope_factors, "rope_freqs.weight"},
    {Part::attention_norm, "blk.{}.attn_norm.weight"},
    {Part::q, "blk.{}.attn_q.weight"},
    {Part::k, "blk.{}.attn_k.weight"},
    {Part::v, "blk.{}.attn_v.weight"},
    {Part::q_bias, "blk.{}.attn_q.bias"},
    {Part::k_bias, "blk.{}.attn_k.bias"},
    {Part::v_bias, "blk.{}.attn_v.bias"},
    {Part::attention_output, "blk.{}.attn_output.weight"},
    {Part::attention_output_bias, "blk.{}.attn_output.bias"},
    {Part::ffn_norm, "blk.{}.ffn_norm.weight"},
    {Part::gate, "blk.{}.ffn_gate.weight"},
    {Part::up, "blk.{}.ffn_up.weight"},
    {Part::down, "blk.{}.ffn_down.weight"},
    {Part::gate_bias, "blk.{}.ffn_gate.bias"},
    {Part::up_bias, "blk.{}.ffn_up.bias"},
    {Part::down_bias, "blk.{}.ffn_down.bias"},
};

// The norms of a gemma file already hold 1 + weight.
constexpr Name gemma3[] = {
    {Part::token_embedding, "token_embd.weight"},
    {Part::output_norm, "output_norm.weight"},
    {Part::output, "output.weight"},
    {Part::rope_factors, "rope_freqs.weight"},
    {Part::attention_norm, "blk.{}.attn_norm.weight"},
    {Part::q, "blk.{}.attn_q.weight"},
    {Part::k, "blk.{}.attn_k.weight"},
    {Part::v, "blk.{}.attn_v.weight"},
    {Part::q_norm, "blk.{}.attn_q_norm.weight"},
    {Part::k_norm, "blk.{}.attn_k_norm.weight"},
    {Part::attention_output, "blk.{}.attn_output.weight"},
    {Part::post_attention_norm, "blk.{}.post_attention_norm.weight"},
    {Part::ffn_norm, "blk.{}.ffn_norm.weight"},
    {Part::gate, "blk.{}.ffn_gate.weight"},
    {Part::up, "blk.{}.ffn_up.weight"},
    {Part::down, "blk.{}.ffn_down.weight"},
    {Part::post_ffn_norm, "blk.{}.post_ffw_norm.weight"},
};

struct Family {
  std::string_view name;
  std::span<const Name> names;
};

constexpr Family families[] = {{"llama", llama}, {"gemma3", gemma3}};

}  // namespace

std::optional<std::string> tensor_name(std::string_view family, Part part, int layer) {
  const auto* found = std::ranges::find(families, family, &Family::name);
  if (found == std::end(families)) return std::nullopt;
  const auto name = std::ranges::find(found->names, part, &Name::part);
  if (name == found->names.end()) return std::nullopt;
  std::string result(name->pattern);
  if (const std::size_t at = result.find("{}"); at != std::string::npos) {
    result.replace(at, 2, std::to_string(layer));
  }
  return result;
}

}  // namespace baton::weights
