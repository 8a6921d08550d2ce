#include "workspace.h"

namespace baton::models {

kernels::Rows Scratch::get(int rows, int cols) {
  constexpr int line_floats = 16;
  const int stride = (cols + line_floats - 1) / line_floats * line_floats;
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

}  // namespace baton::models
