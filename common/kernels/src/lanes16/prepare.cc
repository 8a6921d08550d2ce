#include "lanes16/prepare.h"

#include <algorithm>

namespace baton::kernels {

PreparedInput::PreparedInput(const Lanes16Ops& ops, const PanelShape& shape, int rows)
    : ops_(&ops), shape_(&shape) {
  layout_.block_rows = rows > ops.few_rows ? ops.block_rows : std::min(ops.block_rows, rows);
  layout_.step_bytes =
      static_cast<std::size_t>(layout_.block_rows) *
      (shape.integer() ? group_inputs + sizeof(GroupScale) : step_words() * sizeof(std::uint32_t));
  // Blocks begin on a cache line.
  const auto steps = static_cast<std::size_t>(in_tiles() ? shape.bf16_tiles() : shape.steps);
  layout_.block_bytes = (steps * layout_.step_bytes + 63) / 64 * 64;
  const int blocks = (rows + layout_.block_rows - 1) / layout_.block_rows;
  bytes_ = static_cast<std::size_t>(blocks) * layout_.block_bytes;
}

std::size_t PreparedInput::step_words() const {
  if (in_tiles()) return bf16_tile_inputs / 2;
  const bool pair = shape_->arithmetic == Arithmetic::bf16;
  return pair && ops_->bf16_inputs == Bf16Inputs::floats ? 2 : 1;
}

Activations PreparedInput::view() const {
  Activations view = layout_;
  view.data = memory_;
  return view;
}

void PreparedInput::write(int row, int first, int count, const float* values) const {
  const int rows = layout_.block_rows;
  const int place = row % rows;
  std::byte* block = memory_ + static_cast<std::size_t>(row / rows) * layout_.block_bytes;
  if (shape_->integer()) {
    std::byte* step = block + static_cast<std::size_t>(first / group_inputs) * layout_.step_bytes;
    std::byte* scales = step + static_cast<std::size_t>(rows) * group_inputs;
    const QuantisedRow out{reinterpret_cast<std::int8_t*>(step) + place * group_inputs,
                           reinterpret_cast<GroupScale*>(scales) + place, layout_.step_bytes};
    ops_->quantise_row(values, count / group_inputs, shape_->format, out);
  } else if (shape_->arithmetic == Arithmetic::bf16) {
    write_bf16(block, place, first, count, values);
  } else {
    float* words = reinterpret_cast<float*>(block) + static_cast<std::ptrdiff_t>(first) * rows;
    for (int i = 0; i < count; ++i) words[i * rows + place] = values[i];
  }
}

void PreparedInput::write_bf16(std::byte* block, int place, int first, int count,
                               const float* values) const {
  const auto own = place * static_cast<std::ptrdiff_t>(step_words());
  if (!in_tiles()) {
    std::byte* step = block + static_cast<std::size_t>(first / 2) * layout_.step_bytes;
    auto* words = reinterpret_cast<std::uint32_t*>(step) + own;
    return ops_->round_apart(values, count, words, layout_.block_rows);
  }
  for (int i = 0; i < count; i += bf16_tile_inputs) {
    std::byte* step =
        block + static_cast<std::size_t>((first + i) / bf16_tile_inputs) * layout_.step_bytes;
    auto* words = reinterpret_cast<std::uint32_t*>(step) + own;
    const int inputs = std::min(bf16_tile_inputs, count - i);
    if (inputs < bf16_tile_inputs) std::fill_n(words, step_words(), 0);
    ops_->round_apart(values + i, inputs, words, 1);
  }
}

}  // namespace baton::kernels
