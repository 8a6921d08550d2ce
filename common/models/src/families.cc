#include "families.h"

#include <algorithm>
#include <iterator>

namespace baton::models {
namespace {

constexpr Family families[] = {
    // Llama 2 and 3, SmolLM2, Mistral.
    {
        .name = "llama",
        .activation = kernels::Activation::silu,
        .interleaved_rope = true,
    },
    {
        .name = "gemma3",
        .activation = kernels::Activation::gelu_tanh,
        .qk_norm = true,
        .post_norms = true,
        .scaled_embeddings = true,
        .rope_base = 1'000'000,
        .local_rope_base = 10'000,
        .window_pattern = 6,
        .window_required = true,
        .width_scaled_attention_layers = 62,  // Gemma 3 27B: query_pre_attn_scalar = width / heads
    },
};

}  // namespace

const Family* find_family(std::string_view architecture) {
  const auto* found = std::ranges::find(families, architecture, &Family::name);
  return found == std::end(families) ? nullptr : found;
}

}  // namespace baton::models
