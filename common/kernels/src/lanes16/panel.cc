#include "lanes16/panel.h"

#include <algorithm>

#include "baton/base/check.h"

#include "half.h"
#include "lanes16/constants.h"

namespace baton::kernels {
namespace {

using tensor::DType;

constexpr std::size_t q4_group_bytes = 256;
constexpr std::size_t q8_group_bytes = 512;
constexpr std::size_t alignment = 64;

Arithmetic arithmetic_of(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return Arithmetic::f16;
    case DType::bf16:
      return Arithmetic::bf16;
    case DType::q4_0:
      return Arithmetic::q4_0;
    case DType::q4_1:
      return Arithmetic::q4_1;
    case DType::q8_0:
      return Arithmetic::q8_0;
    case DType::f32:
    case DType::q5_0:
    case DType::q5_1:
    case DType::q4_k:
    case DType::q5_k:
    case DType::q6_k:
      return Arithmetic::f32;
  }
  BATON_CHECK(false);
}

std::size_t group_bytes(Arithmetic a) {
  return a == Arithmetic::q8_0 ? q8_group_bytes : q4_group_bytes;
}

/// Bytes of one group's scales (and minima) in a panel.
std::size_t scale_bytes(Arithmetic a) {
  return static_cast<std::size_t>(lanes) * 2 * (a == Arithmetic::q4_1 ? 2 : 1);
}

void pack_float_row(const PanelShape& shape, const WeightView& weight, const std::byte* row,
                    int lane, std::byte* panel) {
  std::vector<float> values(static_cast<std::size_t>(shape.inputs));
  dequantise(weight.dtype, row, values.size(), values.data());
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::memcpy(panel + (i * lanes + lane) * sizeof(float), &values[i], sizeof(float));
  }
}

void pack_half_row(const PanelShape& shape, const std::byte* row, int lane, std::byte* panel) {
  const int per_word = shape.arithmetic == Arithmetic::bf16 ? 2 : 1;
  for (int i = 0; i < shape.inputs; ++i) {
    const int place = (i / per_word * lanes + lane) * per_word + i % per_word;
    std::memcpy(panel + static_cast<std::size_t>(place) * 2, row + static_cast<std::size_t>(i) * 2,
                2);
  }
}

void pack_integer_row(const PanelShape& shape, DType dtype, const std::byte* row, int lane,
                      std::byte* panel) {
  const std::size_t block = tensor::info(dtype).block_bytes;
  const int halves = shape.arithmetic == Arithmetic::q4_1 ? 2 : 1;
  const int quants = shape.arithmetic == Arithmetic::q8_0 ? 32 : 16;
  const auto flip = static_cast<std::byte>(shape.arithmetic == Arithmetic::q8_0 ? 0x80 : 0);
  for (int g = 0; g < shape.steps; ++g) {
    const std::byte* from = row + static_cast<std::size_t>(g) * block;
    std::byte* scales =
        panel + shape.scales_offset + static_cast<std::size_t>(g) * scale_bytes(shape.arithmetic);
    for (int h = 0; h < halves; ++h) std::memcpy(scales + (h * lanes + lane) * 2, from + h * 2, 2);
    std::byte* to = panel + static_cast<std::size_t>(g) * group_bytes(shape.arithmetic);
    for (int i = 0; i < quants; ++i) {
      to[(i / 4 * lanes + lane) * 4 + i % 4] = from[halves * 2 + i] ^ flip;
    }
  }
}

}  // namespace

PanelShape panel_shape(DType dtype, int outputs, int inputs) {
  PanelShape s;
  s.arithmetic = arithmetic_of(dtype);
  s.outputs = outputs;
  s.inputs = inputs;
  s.panels = (outputs + lanes - 1) / lanes;
  const auto wide = static_cast<std::size_t>(inputs);
  std::size_t bytes = 0;
  if (s.integer()) {
    BATON_CHECK(inputs % group_inputs == 0);
    s.steps = inputs / group_inputs;
    s.scales_offset = static_cast<std::size_t>(s.steps) * group_bytes(s.arithmetic);
    bytes = s.scales_offset + static_cast<std::size_t>(s.steps) * scale_bytes(s.arithmetic);
  } else if (s.arithmetic == Arithmetic::bf16) {
    s.steps = (inputs + 1) / 2;
    bytes = static_cast<std::size_t>(s.steps) * lanes * 4;
  } else {
    s.steps = inputs;
    bytes = wide * lanes * (s.arithmetic == Arithmetic::f16 ? 2 : 4);
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
      pack_integer_row(shape, weight.dtype, row, o % lanes, panel);
    } else if (shape.arithmetic == Arithmetic::f32) {
      pack_float_row(shape, weight, row, o % lanes, panel);
    } else {
      pack_half_row(shape, row, o % lanes, panel);
    }
  }
}

void unpack_output(const PanelShape& shape, const std::byte* packed, int output, float* out) {
  const std::byte* panel = packed + static_cast<std::size_t>(output / lanes) * shape.panel_bytes;
  const int lane = output % lanes;
  for (int i = 0; i < shape.inputs; ++i) {
    if (shape.arithmetic == Arithmetic::f32) {
      out[i] = load<float>(panel + static_cast<std::size_t>(i * lanes + lane) * 4);
    } else if (shape.arithmetic == Arithmetic::f16) {
      out[i] =
          f16_to_f32(load<std::uint16_t>(panel + static_cast<std::size_t>(i * lanes + lane) * 2));
    } else if (shape.arithmetic == Arithmetic::bf16) {
      const int place = (i / 2 * lanes + lane) * 2 + i % 2;
      out[i] = bf16_to_f32(load<std::uint16_t>(panel + static_cast<std::size_t>(place) * 2));
    } else {
      const int g = i / group_inputs;
      const int k = i % group_inputs;
      const std::byte* group = panel + static_cast<std::size_t>(g) * group_bytes(shape.arithmetic);
      const std::byte* scales =
          panel + shape.scales_offset + static_cast<std::size_t>(g) * scale_bytes(shape.arithmetic);
      const float d = f16_to_f32(load<std::uint16_t>(scales + lane * 2));
      if (shape.arithmetic == Arithmetic::q8_0) {
        const auto w = static_cast<int>(group[(k / 4 * lanes + lane) * 4 + k % 4]);
        out[i] = d * static_cast<float>(w - 128);
        continue;
      }
      const int low = k % 16;
      const auto both = static_cast<int>(group[(low / 4 * lanes + lane) * 4 + low % 4]);
      const int w = k < 16 ? both & 15 : both >> 4;
      if (shape.arithmetic == Arithmetic::q4_0) {
        out[i] = d * static_cast<float>(w - 8);
      } else {
        const float m = f16_to_f32(load<std::uint16_t>(scales + (lanes + lane) * 2));
        out[i] = d * static_cast<float>(w) + m;
      }
    }
  }
}

}  // namespace baton::kernels
