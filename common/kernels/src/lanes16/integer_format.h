// How integer weights lie in a panel, and what a group of 32 inputs contributes to an output. The
// table below is the one home of these formats: packing, spec and the vector sets read it.
//
// Quants of one group, for 16 outputs (lanes), unsigned, raised by `bias`:
//   4 bits  [j 0..3][lane][i 0..3] bytes: input 4j+i in the low nibble, 16+4j+i in the high one
//   5 bits  the same, then [lane] words of fifth bits: that of input 4j+i is bit 8i+j
//   6 bits  the same as 4 bits, then [k 0..1][lane] words: the upper two bits of input 16k+4j+i are
//           bits 8i+2j and 8i+2j+1
//   8 bits  [j 0..7][lane][i 0..3] bytes: input 4j+i
// After the quants of all groups come the records of scales; one record serves one group or eight:
//   single       16 halves d
//   minimum      16 halves d, 16 halves m
//   super_min    16 halves d, 16 halves dmin, then per group 16 bytes scale, 16 bytes minimum
//   super_half   16 halves d, then per group 16 signed bytes scale of its first 16 inputs, 16 of
//                the others
#pragma once

#include <cstddef>
#include <cstdint>

#include "baton/tensor/dtype.h"

#include "lanes16/constants.h"

namespace baton::kernels {

/// How a weight type is computed.
enum class Arithmetic : std::uint8_t {
  f32,
  f16,
  bf16,
  q4_0,
  q4_1,
  q5_0,
  q5_1,
  q8_0,
  q4_k,
  q5_k,
  q6_k
};

enum class Scales : std::uint8_t { single, minimum, super_min, super_half };

struct IntegerFormat {
  int bits = 0;
  int bias = 0;  ///< what stored quants are higher than their values
  Scales scales = Scales::single;

  /// Whether a group's weights have a minimum that is added to the scaled quants.
  constexpr bool has_minimum() const {
    return scales == Scales::minimum || scales == Scales::super_min;
  }
  /// Whether the halves of a group have scales of their own.
  constexpr bool has_halves() const { return scales == Scales::super_half; }
  /// Groups that one record of scales serves.
  constexpr int record_groups() const {
    return scales == Scales::super_min || scales == Scales::super_half ? 8 : 1;
  }
  constexpr std::size_t record_bytes() const {
    const std::size_t halves = lanes * 2;
    if (scales == Scales::single) return halves;
    if (scales == Scales::minimum) return 2 * halves;
    return (scales == Scales::super_min ? 2 * halves : halves) + 8 * group_scale_bytes;
  }
  /// Where a record's bytes of group g (of 8) begin.
  constexpr std::size_t group_scales(int g) const {
    const std::size_t halves = lanes * 2;
    return (scales == Scales::super_min ? 2 * halves : halves) +
           static_cast<std::size_t>(g) * group_scale_bytes;
  }
  constexpr std::size_t quant_bytes() const {
    return static_cast<std::size_t>(bits) * lanes * group_inputs / 8;
  }

  static constexpr std::size_t group_scale_bytes = 2 * lanes;
};

constexpr IntegerFormat integer_format(Arithmetic arithmetic) {
  switch (arithmetic) {
    case Arithmetic::q4_0:
      return {4, 8, Scales::single};
    case Arithmetic::q4_1:
      return {4, 0, Scales::minimum};
    case Arithmetic::q5_0:
      return {5, 16, Scales::single};
    case Arithmetic::q5_1:
      return {5, 0, Scales::minimum};
    case Arithmetic::q8_0:
      return {8, 128, Scales::single};
    case Arithmetic::q4_k:
      return {4, 0, Scales::super_min};
    case Arithmetic::q5_k:
      return {5, 0, Scales::super_min};
    case Arithmetic::q6_k:
      return {6, 32, Scales::super_half};
    case Arithmetic::f32:
    case Arithmetic::f16:
    case Arithmetic::bf16:
      break;
  }
  return {};
}

/// One output's weights of one group: value i is, in this order, (scale * half[i / 16]) * q[i] +
/// minimum.
struct GroupWeights {
  std::int8_t quants[group_inputs];
  float scale = 0;    ///< d, or the exact product of d and the group's own scale
  float minimum = 0;  ///< m, or minus the exact product of dmin and the group's minimum
  int halves[2] = {1, 1};
};

/// Reads group `group` of lane `lane` of a panel. Scalar; for spec and for embeddings.
void read_group(const IntegerFormat& format, const std::byte* panel, std::size_t scales_offset,
                int lane, int group, GroupWeights& out);

/// Writes the same from a model file's row: `row` is the whole row of one output.
void write_group(const IntegerFormat& format, tensor::DType dtype, const std::byte* row, int lane,
                 int group, std::byte* panel, std::size_t scales_offset);

}  // namespace baton::kernels
