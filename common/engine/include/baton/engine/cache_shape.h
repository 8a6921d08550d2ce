// How large a worker's cache is: from one number of positions to the blocks of each layer group.
#pragma once

#include <cstdint>

#include "baton/kvcache/arena.h"
#include "baton/kvcache/core/block_pools.h"
#include "baton/models/config.h"

namespace baton::engine {

struct CacheShape {
  std::int64_t positions = 0;  ///< that full groups hold, over all sequences
  int block_units = 4;
  tensor::CacheDtype dtype = tensor::CacheDtype::bf16;
  /// Window groups hold the window and one chunk of so many rows for so many sequences, and never
  /// more than a full group would.
  int sequences = 16;
  std::int64_t chunk_rows = 512;
};

/// Positions that full groups have in the end: blocks are whole.
std::int64_t capacity(const CacheShape& shape);

kvcache::ArenaConfig arena_config(const models::ModelConfig& model, const CacheShape& shape);

/// The pools over an arena of that configuration. `record_freed`: see kvcache::PoolConfig.
kvcache::PoolConfig pool_config(const models::ModelConfig& model, const kvcache::ArenaConfig& arena,
                                bool record_freed);

/// Bytes of the whole cache, for the memory budget printed at start.
std::size_t cache_bytes(const kvcache::ArenaConfig& arena);

}  // namespace baton::engine
