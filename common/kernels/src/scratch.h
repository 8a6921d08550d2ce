// Memory for intermediate values.
#pragma once

#include "baton/kernels/kernels.h"
#include "baton/tensor/buffer.h"

namespace baton::kernels {

/// Memory that only grows; what it held is lost when it does.
class Scratch {
 public:
  std::byte* bytes(std::size_t count) {
    if (count > memory_.size()) {
      memory_ = tensor::Buffer();  // frees before it allocates
      memory_ = tensor::Buffer(count * 5 / 4);
    }
    return memory_.data();
  }
  /// Rows that begin on a cache line.
  Rows rows(int count, int cols) {
    const int stride = (cols + 15) / 16 * 16;
    const std::size_t values = static_cast<std::size_t>(count) * static_cast<std::size_t>(stride);
    return {reinterpret_cast<float*>(bytes(values * sizeof(float))), count, cols, stride};
  }

 private:
  tensor::Buffer memory_;
};

}  // namespace baton::kernels
