#include "workspace.h"

namespace baton::models {
namespace {

int stride_of(int cols) {
  constexpr int line_floats = 16;
  return (cols + line_floats - 1) / line_floats * line_floats;
}

}  // namespace

kernels::Rows Scratch::get(int rows, int cols) {
  const int stride = stride_of(cols);
  const std::size_t bytes =
      static_cast<std::size_t>(rows) * static_cast<std::size_t>(stride) * sizeof(float);
  if (bytes > memory_.size()) {
    memory_ = tensor::Buffer();  // frees before it allocates
    memory_ = tensor::Buffer(bytes);
  }
  return {reinterpret_cast<float*>(memory_.data()), rows, cols, stride};
}

std::size_t Workspace::bytes() const {
  return hidden.bytes() + qkv.bytes() + attention.bytes() + projection.bytes() + logits.bytes();
}

std::size_t Workspace::most_bytes(const ModelConfig& config, std::int64_t rows,
                                  std::int64_t logits_rows) {
  const int q_width = config.heads * config.head_dim;
  const int kv_width = config.kv_heads * config.head_dim;
  const std::int64_t row = std::int64_t{stride_of(config.width)} * (config.post_norms ? 2 : 1) +
                           stride_of(q_width + 2 * kv_width) + stride_of(q_width);
  const std::int64_t values = rows * row + logits_rows * stride_of(config.vocabulary);
  return static_cast<std::size_t>(values) * sizeof(float);
}

}  // namespace baton::models
