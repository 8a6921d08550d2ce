#include "lanes16/panel.h"

#include <algorithm>

#include "baton/base/check.h"

#include "half.h"
#include "lanes16/constants.h"

namespace baton::kernels {
namespace {

using tensor::DType;

constexpr std::size_t alignment = 64;

Arithmetic arithmetic_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return Arithmetic::f32;
    case DType::f16:
      return Arithmetic::f16;
    case DType::bf16:
      return Arithmetic::bf16;
    case DType::q4_0:
      return Arithmetic::q4_0;
    case DType::q4_1:
      return Arithmetic::q4_1;
    case DType::q5_0:
      return Arithmetic::q5_0;
    case DType::q5_1:
      return Arithmetic::q5_1;
    case DType::q8_0:
      return Arithmetic::q8_0;
    case DType::q4_k:
      return Arithmetic::q4_k;
    case DType::q5_k:
      return Arithmetic::q5_k;
    case DType::q6_k:
      return Arithmetic::q6_k;
  }
  BATON_CHECK(false);
}

/// [input][lane].
template <typename Value>
void pack_row(const std::byte* row, int inputs, int lane, std::byte* panel) {
  for (int i = 0; i < inputs; ++i) {
    std::memcpy(panel + static_cast<std::size_t>(i * lanes + lane) * sizeof(Value),
                row + static_cast<std::size_t>(i) * sizeof(Value), sizeof(Value));
  }
}

/// Where input i of a lane lies in a panel of pairs.
std::size_t place_in_pairs(int i, int lane) {
  return static_cast<std::size_t>((i / 2 * lanes + lane) * 2 + i % 2) * 2;
}

void pack_bf16_row(const std::byte* row, int inputs, int lane, std::byte* panel) {
  for (int i = 0; i < inputs; ++i) {
    std::memcpy(panel + place_in_pairs(i, lane), row + static_cast<std::size_t>(i) * 2, 2);
  }
}

void pack_float_row(Arithmetic arithmetic, const std::byte* row, int inputs, int lane,
                    std::byte* panel) {
  if (arithmetic == Arithmetic::f32) return pack_row<float>(row, inputs, lane, panel);
  if (arithmetic == Arithmetic::f16) return pack_row<std::uint16_t>(row, inputs, lane, panel);
  pack_bf16_row(row, inputs, lane, panel);
}

float float_weight(Arithmetic arithmetic, const std::byte* panel, int i, int lane) {
  const std::size_t at = static_cast<std::size_t>(i) * lanes + static_cast<std::size_t>(lane);
  if (arithmetic == Arithmetic::f32) return load<float>(panel + at * 4);
  if (arithmetic == Arithmetic::f16) return f16_to_f32(load<std::uint16_t>(panel + at * 2));
  return bf16_to_f32(load<std::uint16_t>(panel + place_in_pairs(i, lane)));
}

}  // namespace

PanelShape panel_shape(DType dtype, int outputs, int inputs) {
  PanelShape s;
  s.arithmetic = arithmetic_of(dtype);
  s.format = integer_format(s.arithmetic);
  s.outputs = outputs;
  s.inputs = inputs;
  s.panels = (outputs + lanes - 1) / lanes;
  std::size_t bytes = 0;
  if (s.integer()) {
    s.steps = inputs / group_inputs;
    const int per_record = s.format.record_groups();
    BATON_CHECK(inputs % group_inputs == 0 && s.steps % per_record == 0);
    const auto groups = static_cast<std::size_t>(s.steps);
    s.scales_offset = groups * s.format.quant_bytes();
    bytes = s.scales_offset + groups / per_record * s.format.record_bytes();
  } else {
    s.steps = s.arithmetic == Arithmetic::bf16 ? (inputs + 1) / 2 : inputs;
    const std::size_t step_bytes = lanes * (s.arithmetic == Arithmetic::f16 ? 2 : 4);
    const int steps =
        s.arithmetic == Arithmetic::bf16 ? s.bf16_tiles() * bf16_tile_inputs / 2 : s.steps;
    bytes = static_cast<std::size_t>(steps) * step_bytes;
  }
  s.panel_bytes = (bytes + alignment - 1) / alignment * alignment;
  return s;
}

void pack_panels(const WeightView& weight, std::byte* out) {
  const PanelShape shape = panel_shape(weight.dtype, weight.outputs, weight.inputs);
  const std::size_t row_bytes =
      tensor::row_bytes(weight.dtype, static_cast<std::size_t>(weight.inputs));
  std::memset(out, 0, static_cast<std::size_t>(shape.panels) * shape.panel_bytes);
  for (int o = 0; o < weight.outputs; ++o) {
    const std::byte* row = weight.data + static_cast<std::size_t>(o) * row_bytes;
    std::byte* panel = out + static_cast<std::size_t>(o / lanes) * shape.panel_bytes;
    if (shape.integer()) {
      for (int g = 0; g < shape.steps; ++g) {
        write_group(shape.format, weight.dtype, row, o % lanes, g, panel, shape.scales_offset);
      }
    } else {
      pack_float_row(shape.arithmetic, row, shape.inputs, o % lanes, panel);
    }
  }
}

void unpack_output(const PanelShape& shape, const std::byte* packed, int output, float* out) {
  const std::byte* panel = packed + static_cast<std::size_t>(output / lanes) * shape.panel_bytes;
  const int lane = output % lanes;
  if (shape.integer()) {
    GroupWeights group;
    for (int i = 0; i < shape.inputs; ++i) {
      const int k = i % group_inputs;
      if (k == 0) {
        read_group(shape.format, panel, shape.scales_offset, lane, i / group_inputs, group);
      }
      const int half = group.halves[k < group_inputs / 2 ? 0 : 1];
      const float scale = group.scale * static_cast<float>(half);
      const float value = scale * static_cast<float>(group.quants[k]);
      out[i] = shape.format.has_minimum() ? value + group.minimum : value;
    }
    return;
  }
  for (int i = 0; i < shape.inputs; ++i) out[i] = float_weight(shape.arithmetic, panel, i, lane);
}

}  // namespace baton::kernels
