#include "memory_need.h"

#include <algorithm>

#include <fmt/format.h>

#include "baton/tensor/unit_layout.h"

namespace baton::worker {
namespace {

/// What a process takes without any of that.
constexpr std::uint64_t rest = std::uint64_t{32} << 20;
constexpr std::int64_t fewest_positions = 1024;

double mib(std::uint64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

std::string_view advice(const MemoryNeed& need, std::uint64_t limit_bytes) {
  if (need.weights + rest > limit_bytes) return "the model alone is too large";
  if (need.without_cache() > limit_bytes) return "lower token_budget, threads or context_length";
  return "lower cache_tokens";
}

}  // namespace

std::uint64_t MemoryNeed::without_cache() const { return weights + position_tables + steps + rest; }

models::StepSize largest_step(std::int64_t token_budget, std::int64_t context_length,
                              const engine::CacheShape& cache) {
  const std::int64_t held = engine::capacity(cache);
  const std::int64_t blocks = held / (std::int64_t{cache.block_units} * tensor::unit_positions);
  models::StepSize step;
  step.rows = token_budget;
  // A row of logits is a sequence's, and that has a block of its own.
  step.logits_rows = std::min(token_budget, blocks);
  step.positions = std::min(context_length, held);
  return step;
}

Result<void> check_memory(const MemoryNeed& need, std::uint64_t limit_bytes) {
  if (need.sum() <= limit_bytes) return ok();
  return Error(
      Reason::bad_config,
      fmt::format("cache_tokens: weights ({:.0f} MiB), position tables ({:.0f}), cache ({:.0f}), "
                  "steps ({:.0f}) and the rest need {:.0f} MiB, the limit is {:.0f} MiB; {}",
                  mib(need.weights), mib(need.position_tables), mib(need.cache), mib(need.steps),
                  mib(need.sum()), mib(limit_bytes), advice(need, limit_bytes)));
}

std::int64_t default_cache_positions(const models::ModelConfig& model, engine::CacheShape shape,
                                     std::int64_t context_length, const MemoryNeed& need,
                                     std::uint64_t limit_bytes) {
  shape.positions = 2 * context_length;
  const std::uint64_t left = limit_bytes - std::min(limit_bytes, need.without_cache());
  const std::uint64_t budget = std::min(limit_bytes / 4, left);
  const std::uint64_t wanted = engine::cache_bytes(engine::arena_config(model, shape));
  if (wanted <= budget) return shape.positions;
  const double share = static_cast<double>(budget) / static_cast<double>(wanted);
  return std::max(fewest_positions,
                  static_cast<std::int64_t>(static_cast<double>(shape.positions) * share));
}

}  // namespace baton::worker
