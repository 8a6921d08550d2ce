// What this processor can do at most, measured: what a benchmark's rates are set beside.
#pragma once

#include "baton/kernels/thread_pool.h"

namespace baton::kernels {

/// Rates over all threads of a pool. An operation is a multiplication or an addition; the fastest
/// set (fastest_set()) decides which instructions count.
struct MachineLimits {
  double memory_bytes = 0;  ///< read from memory, bytes a second
  double int8_ops = 0;      ///< products of 8-bit integers, summed up in 32 bits
  double bf16_ops = 0;      ///< products of bf16; where there are none, of float32
  double f32_ops = 0;
};

/// Takes about half a second and 256 MiB.
MachineLimits probe_limits(ThreadPool& pool);

/// The memory's part alone, which moves most from second to second.
double probe_memory(ThreadPool& pool);

}  // namespace baton::kernels
