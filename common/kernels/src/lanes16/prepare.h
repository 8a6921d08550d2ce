// Brings the input of a linear layer into the form that its weights want.
#pragma once

#include "lanes16/ops.h"

namespace baton::kernels {

/// Whether a product with these weights is in the order of the class tiles16.
inline bool bf16_in_tiles(const PanelShape& weights, const Lanes16Ops& ops) {
  return weights.arithmetic == Arithmetic::bf16 && ops.bf16_inputs == Bf16Inputs::tiles;
}

/// The prepared input of a linear layer in memory that can be written. Rows are independent: any
/// thread may write any row.
class PreparedInput {
 public:
  PreparedInput() = default;
  PreparedInput(const Lanes16Ops& ops, const PanelShape& shape, int rows);

  std::size_t bytes() const { return bytes_; }
  /// bytes() bytes, aligned to 64.
  void use(std::byte* memory) { memory_ = memory; }
  Activations view() const;

  /// Prepares `count` inputs of a row from `first` on, an even number or the row's last; for
  /// integer weights whole groups of 32, and for bf16 in tiles from the begin of one on.
  void write(int row, int first, int count, const float* values) const;

 private:
  /// Words of a row in a step of float weights.
  std::size_t step_words() const;
  bool in_tiles() const { return bf16_in_tiles(*shape_, *ops_); }
  void write_bf16(std::byte* block, int place, int first, int count, const float* values) const;

  const Lanes16Ops* ops_ = nullptr;
  const PanelShape* shape_ = nullptr;
  Activations layout_;
  std::size_t bytes_ = 0;
  std::byte* memory_ = nullptr;
};

}  // namespace baton::kernels
