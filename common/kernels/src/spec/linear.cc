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
};

/// One row of activations in its block.
struct Input {
  Input(const Activations& all, int row)
      : block(all.block(row)), activations(all), row_in_block(row % all.block_rows) {}

  std::uint32_t word(int step) const { return load<std::uint32_t>(at(step) + row_in_block * 4); }
  /// The same of a pair where inputs lie in tiles.
  std::uint32_t tile_word(int pair) const {
    constexpr int pairs = bf16_tile_inputs / 2;
    return load<std::uint32_t>(at(pair / pairs) + (row_in_block * pairs + pair % pairs) * 4);
  }
  const std::int8_t* values(int group) const {
    return reinterpret_cast<const std::int8_t*>(at(group) + row_in_block * group_inputs);
  }
  GroupScale scale(int group) const {
    return load<GroupScale>(at(group) + activations.block_rows * group_inputs +
                            row_in_block * sizeof(GroupScale));
  }

  const std::byte* at(int step) const {
    return block + static_cast<std::size_t>(step) * activations.step_bytes;
  }

  const std::byte* block;
  const Activations& activations;
  int row_in_block;
};

float float_dot(const Output& o, const Input& x) {
  float sum = 0;
  for (int s = 0; s < o.shape.steps; ++s) {
    if (o.shape.arithmetic == Arithmetic::bf16) {
      sum = step_bf16(sum, o.word(s), x.word(s));
    } else if (o.shape.arithmetic == Arithmetic::f16) {
      sum = fma(o.half(s), std::bit_cast<float>(x.word(s)), sum);
    } else {
      sum = step_f32(sum, o.word(s), x.word(s));
    }
  }
  return sum;
}

/// What TDPBF16PS does (Intel's Architecture Instruction Set Extensions, chapter AMX): the even and
/// the odd inputs of a tile are summed by themselves, then together, then added.
float bf16_tile_dot(const Output& o, const Input& x) {
  float sum = 0;
  for (int first = 0; first < o.shape.steps; first += bf16_tile_inputs / 2) {
    float even = 0;
    float odd = 0;
    // Zeros fill the last tile, of weights and of inputs: they make a sum of -0 one of +0.
    for (int s = first; s < first + bf16_tile_inputs / 2; ++s) {
      const std::uint32_t w = o.word(s);
      const std::uint32_t v = x.tile_word(s);
      even = step_f32(even, w << 16, v << 16);
      odd = step_f32(odd, w & 0xffff0000U, v & 0xffff0000U);
    }
    sum = sum + (even + odd);
  }
  return sum;
}

/// Adds the products of one group to a row's sum.
float add_group(const IntegerFormat& format, const GroupWeights& weights, const Input& x, int group,
                float sum) {
  const std::int8_t* values = x.values(group);
  const GroupScale scale = x.scale(group);
  int dot = 0;
  for (int half = 0; half < 2; ++half) {
    int part = 0;
    for (int i = 16 * half; i < 16 * half + 16; ++i) part += weights.quants[i] * values[i];
    dot += weights.halves[half] * part;
  }
  sum = fma(static_cast<float>(dot), weights.scale * scale.scale, sum);
  return format.has_minimum() ? fma(weights.minimum, scale.scaled_sum, sum) : sum;
}

float integer_dot(const Output& o, const Input& x) {
  float sum = 0;
  GroupWeights weights;
  for (int g = 0; g < o.shape.steps; ++g) {
    read_group(o.shape.format, o.panel, o.shape.scales_offset, o.lane, g, weights);
    sum = add_group(o.shape.format, weights, x, g, sum);
  }
  return sum;
}

}  // namespace

void quantise_row(const float* x, int groups, const IntegerFormat& format,
                  const QuantisedRow& out) {
  for (int g = 0; g < groups; ++g) {
    const float* from = x + g * group_inputs;
    std::int8_t* values = out.values + static_cast<std::size_t>(g) * out.step_bytes;
    std::uint32_t highest = 0;
    for (int i = 0; i < group_inputs; ++i) {
      const std::uint32_t magnitude = std::bit_cast<std::uint32_t>(from[i]) & 0x7fffffffU;
      highest = magnitude > highest ? magnitude : highest;
    }
    const auto amax = std::bit_cast<float>(highest);
    const bool finite = highest < 0x7f800000U;
    const bool usable = finite && amax >= smallest_amax;
    const float inverse = usable ? 127.0F / amax : 0;
    std::int32_t sums[2] = {0, 0};
    for (int i = 0; i < group_inputs; ++i) {
      // Adding and taking away 1.5 * 2^23 rounds to the nearest even integer.
      const float rounded = usable ? from[i] * inverse + exp_magic - exp_magic : 0;
      values[i] = static_cast<std::int8_t>(rounded);
      sums[i / 16] += values[i];
    }
    GroupScale scale;
    scale.scale = usable ? amax / 127.0F : finite ? 0.0F : std::numeric_limits<float>::quiet_NaN();
    scale.scaled_sum = scale.scale * static_cast<float>(sums[0] + sums[1]);
    scale.start[0] = -format.bias * (format.has_halves() ? sums[0] : sums[0] + sums[1]);
    scale.start[1] = format.has_halves() ? -format.bias * sums[1] : 0;
    std::memcpy(
        reinterpret_cast<std::byte*>(out.scales) + static_cast<std::size_t>(g) * out.step_bytes,
        &scale, sizeof scale);
  }
}

void round_apart(const float* x, int n, std::uint32_t* out, std::ptrdiff_t stride) {
  for (int i = 0; i < n; i += 2) {
    const std::uint32_t odd = i + 1 < n ? f32_to_bf16(x[i + 1]) : 0;
    out[i / 2 * stride] = f32_to_bf16(x[i]) | odd << 16;
  }
}

void round_row(const float* x, int n, std::uint32_t* out) { round_apart(x, n, out, 1); }

namespace {

template <bool tiles>
float dot(const Output& o, const Input& x) {
  if (o.shape.integer()) return integer_dot(o, x);
  if (tiles && o.shape.arithmetic == Arithmetic::bf16) return bf16_tile_dot(o, x);
  return float_dot(o, x);
}

template <bool tiles>
void multiply(const LinearTask& task) {
  const PanelShape& shape = *task.shape;
  const int end = task.panel_end * lanes < shape.outputs ? task.panel_end * lanes : shape.outputs;
  for (int r = task.row_begin; r < task.row_end; ++r) {
    const Input x(task.x, r);
    for (int o = task.panel_begin * lanes; o < end; ++o) {
      const std::byte* panel =
          task.packed + static_cast<std::size_t>(o / lanes) * shape.panel_bytes;
      const Output output{shape, panel, o % lanes};
      const float sum = dot<tiles>(output, x);
      const float value = task.bias == nullptr ? sum : sum + task.bias[o];
      float* to = task.output(r, o);
      *to = task.add ? *to + value : value;
    }
  }
}

}  // namespace

void linear(const LinearTask& task) { multiply<false>(task); }
void linear_in_tiles(const LinearTask& task) { multiply<true>(task); }

}  // namespace baton::kernels::spec
