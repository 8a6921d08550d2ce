// Operations on one row at a time, and the table of the set.
#include "spec/spec.h"

namespace baton::kernels::spec {
namespace {

/// Odd, so that nothing comes to rely on whole blocks.
constexpr int block_rows = 5;

void rms_norm(const float* x, const float* weight, int n, float epsilon, float* y) {
  float lane[lanes] = {};
  const int rounded = (n + lanes - 1) / lanes * lanes;
  for (int i = 0; i < rounded; ++i) {
    const float value = i < n ? x[i] : 0;
    lane[i % lanes] = fma(value, value, lane[i % lanes]);
  }
  const float mean = reduce(lane) / static_cast<float>(n);
  const float factor = 1.0F / std::sqrt(mean + epsilon);
  for (int i = 0; i < n; ++i) y[i] = x[i] * factor * weight[i];
}

void rope_head(float* head, const RopeRow& row) {
  for (int i = 0; i < row.pairs; ++i) {
    float& a = row.interleaved ? head[2 * i] : head[i];
    float& b = row.interleaved ? head[2 * i + 1] : head[i + row.pairs];
    const float rotated = fma(a, row.cosines[i], -(b * row.sines[i]));
    b = fma(b, row.cosines[i], a * row.sines[i]);
    a = rotated;
  }
}

void gated(Activation activation, const float* gate, const float* up, int n, float* out) {
  for (int i = 0; i < n; ++i) {
    const float value = activation == Activation::silu ? silu(gate[i]) : gelu_tanh(gate[i]);
    out[i] = value * up[i];
  }
}

void add(float* x, const float* y, int n) {
  for (int i = 0; i < n; ++i) x[i] = x[i] + y[i];
}

void soft_cap_row(float* x, int n, float softcap) {
  for (int i = 0; i < n; ++i) x[i] = soft_cap(x[i], softcap);
}

}  // namespace
}  // namespace baton::kernels::spec

namespace baton::kernels {

const Lanes16Ops& spec_ops() {
  static constexpr Lanes16Ops ops = {.name = "spec",
                                     .numerics_class = lanes16_class,
                                     .block_rows = spec::block_rows,
                                     .few_rows = spec::block_rows,
                                     .bf16_inputs = Bf16Inputs::words,
                                     .quantise_row = spec::quantise_row,
                                     .round_apart = spec::round_apart,
                                     .linear = spec::linear,
                                     .rms_norm = spec::rms_norm,
                                     .rope_head = spec::rope_head,
                                     .gated = spec::gated,
                                     .add = spec::add,
                                     .soft_cap = spec::soft_cap_row,
                                     .attend_segment = spec::attend_segment,
                                     .merge = spec::merge,
                                     .finish = spec::finish};
  return ops;
}

const Lanes16Ops& spec_tiles_ops() {
  static const Lanes16Ops ops = [] {
    Lanes16Ops tiles = spec_ops();
    tiles.name = "spec_tiles";
    tiles.numerics_class = tiles16_class;
    tiles.bf16_inputs = Bf16Inputs::tiles;
    tiles.linear = spec::linear_in_tiles;
    return tiles;
  }();
  return ops;
}

}  // namespace baton::kernels
