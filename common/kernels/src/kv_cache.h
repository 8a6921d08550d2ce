// Reading and writing cached rows position by position: shared by every set, because a write is a
// rounding and a copy and has no order of operations.
#pragma once

#include "baton/kernels/kernels.h"

namespace baton::kernels {

/// The unit that holds `position`, or null when its block is not there.
inline std::byte* unit_of(const CacheGeometry& cache, std::span<std::byte* const> blocks,
                          std::int64_t position) {
  const std::int64_t unit = position / tensor::unit_positions;
  const auto block = static_cast<std::size_t>(unit / cache.block_units);
  if (block >= blocks.size() || blocks[block] == nullptr) return nullptr;
  return blocks[block] +
         static_cast<std::size_t>(unit % cache.block_units) * cache.unit.unit_bytes();
}

/// Kernels::write_kv.
void write_kv_rows(ThreadPool& pool, const CacheGeometry& cache, ConstRows k, ConstRows v,
                   std::span<const RowSpan> spans);

}  // namespace baton::kernels
