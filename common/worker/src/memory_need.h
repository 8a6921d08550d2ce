// What a worker's memory goes to, added up before it is taken: beyond the limit the kernel ends the
// process without a word.
#pragma once

#include <cstdint>

#include "baton/base/result.h"
#include "baton/engine/cache_shape.h"
#include "baton/kernels/kernels.h"
#include "baton/models/config.h"
#include "baton/models/memory.h"

namespace baton::worker {

struct MemoryNeed {
  std::uint64_t weights = 0;  ///< packed; before they are, the model file's size
  std::uint64_t position_tables = 0;
  std::uint64_t steps = 0;  ///< the largest step's intermediate values and stacks
  std::uint64_t cache = 0;

  std::uint64_t without_cache() const;
  std::uint64_t sum() const { return without_cache() + cache; }
};

/// Of steps with `token_budget` rows over a cache of that shape.
models::StepSize largest_step(std::int64_t token_budget, std::int64_t context_length,
                              const engine::CacheShape& cache);

/// bad_config that says what is needed and what to lower.
Result<void> check_memory(const MemoryNeed& need, std::uint64_t limit_bytes);

/// Positions of a cache that nobody has sized: twice the context, within a quarter of the limit and
/// what `need` leaves of it, but never fewer than a few.
std::int64_t default_cache_positions(const models::ModelConfig& model, engine::CacheShape shape,
                                     std::int64_t context_length, const MemoryNeed& need,
                                     std::uint64_t limit_bytes);

}  // namespace baton::worker
