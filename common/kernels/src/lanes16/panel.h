// The packed layout of the class lanes16: panels of 16 outputs, one output per lane. All sets of
// the class read the same bytes.
//
//   f32   [input][lane] floats                  (K-quants and Q5 too, dequantised)
//   f16   [input][lane] halves
//   bf16  [pair of inputs][lane][2], an odd last input paired with zero
//   q4_*  [group of 32][j 0..3][lane][i 0..3] bytes: input 4j+i in the low nibble, 16+4j+i in the
//         high one; then per group 16 halves d (q4_1: and 16 halves m)
//   q8_0  [group of 32][j 0..7][lane][i 0..3] bytes w + 128 of input 4j+i; then per group 16 halves
//
// Outputs beyond the last are zero bytes. A panel starts at a multiple of 64 bytes.
#pragma once

#include "baton/kernels/kernels.h"

namespace baton::kernels {

/// How a weight type is computed.
enum class Arithmetic : std::uint8_t { f32, f16, bf16, q4_0, q4_1, q8_0 };

struct PanelShape {
  Arithmetic arithmetic = Arithmetic::f32;
  int outputs = 0;
  int inputs = 0;
  int panels = 0;
  int steps = 0;  ///< inputs, pairs of inputs (bf16) or groups of 32
  std::size_t scales_offset = 0;
  std::size_t panel_bytes = 0;

  /// What stored weights are higher than their values, to be unsigned.
  int bias() const {
    if (arithmetic == Arithmetic::q8_0) return 128;
    return arithmetic == Arithmetic::q4_0 ? 8 : 0;
  }
  bool integer() const { return arithmetic >= Arithmetic::q4_0; }
};

PanelShape panel_shape(tensor::DType dtype, int outputs, int inputs);

void pack_panels(const WeightView& weight, std::byte* out);

/// The weights of one output, dequantised.
void unpack_output(const PanelShape& shape, const std::byte* packed, int output, float* out);

}  // namespace baton::kernels
