// The packed layout of the class lanes16: panels of 16 outputs, one output per lane. All sets of
// the class read the same bytes.
//
//   f32   [input][lane] floats
//   f16   [input][lane] halves
//   bf16  [pair of inputs][lane][2], zeros behind the last input until a whole tile of 32
//   integers: quants of all groups, then records of scales (integer_format.h)
//
// Outputs beyond the last are zero bytes. A panel starts at a multiple of 64 bytes.
#pragma once

#include "baton/kernels/kernels.h"

#include "lanes16/integer_format.h"

namespace baton::kernels {

struct PanelShape {
  Arithmetic arithmetic = Arithmetic::f32;
  IntegerFormat format;  ///< bits 0: not an integer type
  int outputs = 0;
  int inputs = 0;
  int panels = 0;
  int steps = 0;  ///< inputs, pairs of inputs (bf16) or groups of 32

  /// Steps of bf16 weights in tiles.
  int bf16_tiles() const { return (inputs + bf16_tile_inputs - 1) / bf16_tile_inputs; }
  std::size_t scales_offset = 0;
  std::size_t panel_bytes = 0;

  bool integer() const { return format.bits != 0; }
  std::size_t bytes() const { return static_cast<std::size_t>(panels) * panel_bytes; }
};

PanelShape panel_shape(tensor::DType dtype, int outputs, int inputs);

void pack_panels(const WeightView& weight, std::byte* out);

/// The weights of one output, dequantised.
void unpack_output(const PanelShape& shape, const std::byte* packed, int output, float* out);

}  // namespace baton::kernels
