// The most memory that a kernel set takes for intermediate values, known before any is taken.
#pragma once

#include <cstddef>
#include <cstdint>

#include "baton/kernels/kernels.h"

namespace baton::kernels {

/// The largest operations that a set will be asked for.
struct WorkspaceShape {
  int threads = 1;
  int rows = 0;                ///< of an operation
  int feed_forward_rows = 0;   ///< of a feed_forward()
  std::int64_t positions = 0;  ///< cached of a sequence
  int width = 0;               ///< of the residual stream
  int feed_forward_width = 0;  ///< of gate, and of up
  int heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
  bool post_norms = false;
  /// Gate and up of some layer are of different types, so that both stand in memory as a whole.
  bool mixed_gate_up = false;
};

/// An upper bound of the heap that `kernels` keeps for operations of that shape.
std::size_t most_workspace_bytes(const Kernels& kernels, const WorkspaceShape& shape);

/// What an operation touches of a kernel thread's stack at most, about: parts of gate and up, sums
/// that are carried, an unpacked panel.
inline constexpr std::size_t thread_stack_bytes = std::size_t{384} << 10;

}  // namespace baton::kernels
