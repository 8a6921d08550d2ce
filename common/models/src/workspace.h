// Memory of a step's intermediate rows, sized for the largest step so far and reused.
#pragma once

#include <cstddef>
#include <cstdint>

#include "baton/kernels/kernels.h"
#include "baton/models/config.h"
#include "baton/tensor/buffer.h"

namespace baton::models {

/// A matrix that grows and never shrinks. Rows begin on a cache line.
class Scratch {
 public:
  /// At least rows x cols; the contents are undefined after a growth.
  kernels::Rows get(int rows, int cols);
  std::size_t bytes() const { return memory_.size(); }

 private:
  tensor::Buffer memory_;
};

struct Workspace {
  Scratch hidden;      ///< the residual stream
  Scratch qkv;         ///< q, k and v beside each other
  Scratch attention;   ///< outputs of the heads
  Scratch projection;  ///< of a family with norms behind its linear operations
  Scratch logits;

  std::size_t bytes() const;
  /// Of the largest step.
  static std::size_t most_bytes(const ModelConfig& config, std::int64_t rows,
                                std::int64_t logits_rows);
};

}  // namespace baton::models
