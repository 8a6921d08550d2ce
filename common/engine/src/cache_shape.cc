#include "baton/engine/cache_shape.h"

#include <algorithm>

#include "baton/base/check.h"

namespace baton::engine {

namespace {

std::int64_t block_positions(const CacheShape& shape) {
  return std::int64_t{shape.block_units} * tensor::unit_positions;
}

}  // namespace

std::int64_t capacity(const CacheShape& shape) {
  const std::int64_t size = block_positions(shape);
  return (shape.positions + size - 1) / size * size;
}

kvcache::ArenaConfig arena_config(const models::ModelConfig& model, const CacheShape& shape) {
  BATON_CHECK(shape.positions > 0 && shape.block_units > 0 && shape.sequences > 0);
  kvcache::ArenaConfig out{
      .unit = {.dtype = shape.dtype, .kv_heads = model.kv_heads, .head_dim = model.head_dim},
      .block_units = shape.block_units,
      .groups = {}};
  const std::int64_t size = block_positions(shape);
  const std::int64_t full = capacity(shape) / size;
  for (const models::LayerGroup& group : model.groups) {
    std::int64_t blocks = full;
    if (group.window > 0) {
      // At the worst alignment the first and the last position stand alone in a block.
      const std::int64_t span = group.window - 1 + shape.chunk_rows;
      blocks = std::min(full, shape.sequences * ((span + size - 2) / size + 1));
    }
    out.groups.push_back({.layers = static_cast<int>(group.layers.size()),
                          .blocks = static_cast<std::int32_t>(blocks)});
  }
  return out;
}

kvcache::PoolConfig pool_config(const models::ModelConfig& model, const kvcache::ArenaConfig& arena,
                                bool record_freed) {
  kvcache::PoolConfig out{.block_positions = arena.block_units * tensor::unit_positions,
                          .groups = {},
                          .record_freed = record_freed};
  for (std::size_t g = 0; g < arena.groups.size(); ++g) {
    out.groups.push_back({.blocks = arena.groups[g].blocks, .window = model.groups[g].window});
  }
  return out;
}

std::size_t cache_bytes(const kvcache::ArenaConfig& arena) {
  std::size_t blocks = 0;
  for (const kvcache::ArenaGroup& group : arena.groups) {
    blocks += 2 * static_cast<std::size_t>(group.layers) * static_cast<std::size_t>(group.blocks);
  }
  return blocks * arena.unit.unit_bytes() * static_cast<std::size_t>(arena.block_units);
}

}  // namespace baton::engine
