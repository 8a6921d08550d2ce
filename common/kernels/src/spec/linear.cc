// Linear layers of the class, one output at a time: one accumulator, ascending steps.
#include "spec/spec.h"

namespace baton::kernels::spec {
namespace {

struct Output {
  const PanelShape& shape;
  const std::byte* panel;  ///< that holds the output
  int lane;

  std::uint32_t word(int step) const {
    return load<std::uint32_t>(panel + static_cast<std::size_t>(step * lanes + lane) * 4);
  }
  float half(int step) const {
    return f16_to_f32(
        load<std::uint16_t>(panel + static_cast<std::size_t>(step * lanes + lane) * 2));
  }
  /// 0: d, 1: m.
  float scale(int group, int which) const {
    const int halves = shape.arithmetic == Arithmetic::q4_1 ? 2 : 1;
    const int place = (group * halves + which) * lanes + lane;
    return f16_to_f32(
        load<std::uint16_t>(panel + shape.scales_offset + static_cast<std::size_t>(place) * 2));
  }
  /// Weight k of a group as an integer: q4_0 -8..7, q4_1 0..15, q8_0 -128..127.
  int quant(int group, int k) const {
    if (shape.arithmetic == Arithmetic::q8_0) {
      return static_cast<int>(panel[group * 512 + (k / 4 * lanes + lane) * 4 + k % 4]) - 128;
    }
    const int low = k % 16;
    const auto both = static_cast<int>(panel[group * 256 + (low / 4 * lanes + lane) * 4 + low % 4]);
    const int nibble = k < 16 ? both & 15 : both >> 4;
    return shape.arithmetic == Arithmetic::q4_0 ? nibble - 8 : nibble;
  }
};

float float_dot(const Output& o, const std::uint32_t* x) {
  float sum = 0;
  for (int s = 0; s < o.shape.steps; ++s) {
    switch (o.shape.arithmetic) {
      case Arithmetic::bf16:
        sum = step_bf16(sum, o.word(s), x[s]);
        break;
      case Arithmetic::f16:
        sum = fma(o.half(s), std::bit_cast<float>(x[s]), sum);
        break;
      default:
        sum = step_f32(sum, o.word(s), x[s]);
    }
  }
  return sum;
}

float integer_dot(const Output& o, const Activations& x, int row) {
  float sum = 0;
  for (int g = 0; g < o.shape.steps; ++g) {
    const QuantisedGroup& group = x.groups(row)[g];
    int dot = 0;
    for (int k = 0; k < group_inputs; ++k) dot += o.quant(g, k) * group.values[k];
    sum = fma(static_cast<float>(dot), o.scale(g, 0) * group.scale, sum);
    if (o.shape.arithmetic == Arithmetic::q4_1) sum = fma(o.scale(g, 1), group.scaled_sum, sum);
  }
  return sum;
}

}  // namespace

void quantise_row(const float* x, int groups, int bias, QuantisedGroup* out) {
  for (int g = 0; g < groups; ++g) {
    const float* from = x + g * group_inputs;
    QuantisedGroup& to = out[g];
    std::uint32_t highest = 0;
    for (int i = 0; i < group_inputs; ++i) {
      const std::uint32_t magnitude = std::bit_cast<std::uint32_t>(from[i]) & 0x7fffffffU;
      highest = magnitude > highest ? magnitude : highest;
    }
    const auto amax = std::bit_cast<float>(highest);
    const bool finite = highest < 0x7f800000U;
    const bool usable = finite && amax >= smallest_amax;
    const float inverse = usable ? 127.0F / amax : 0;
    std::int32_t sum = 0;
    for (int i = 0; i < group_inputs; ++i) {
      // Adding and taking away 1.5 * 2^23 rounds to the nearest even integer.
      const float rounded = usable ? from[i] * inverse + exp_magic - exp_magic : 0;
      to.values[i] = static_cast<std::int8_t>(rounded);
      sum += to.values[i];
    }
    to.scale = usable ? amax / 127.0F : finite ? 0.0F : std::numeric_limits<float>::quiet_NaN();
    to.correction = -bias * sum;
    to.scaled_sum = to.scale * static_cast<float>(sum);
  }
}

void round_row(const float* x, int n, std::uint32_t* out) {
  for (int i = 0; i < n; i += 2) {
    const std::uint32_t odd = i + 1 < n ? f32_to_bf16(x[i + 1]) : 0;
    out[i / 2] = f32_to_bf16(x[i]) | odd << 16;
  }
}

void linear(const LinearTask& task) {
  const PanelShape& shape = *task.shape;
  const int end = task.panel_end * lanes < shape.outputs ? task.panel_end * lanes : shape.outputs;
  for (int r = task.row_begin; r < task.row_end; ++r) {
    for (int o = task.panel_begin * lanes; o < end; ++o) {
      const std::byte* panel =
          task.packed + static_cast<std::size_t>(o / lanes) * shape.panel_bytes;
      const Output output{shape, panel, o % lanes};
      const float sum = shape.integer() ? integer_dot(output, task.x, r)
                                        : float_dot(output, task.x.words + r * task.x.stride);
      task.y.row(r)[o] = task.bias == nullptr ? sum : sum + task.bias[o];
    }
  }
}

}  // namespace baton::kernels::spec
