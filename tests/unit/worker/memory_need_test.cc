#include "memory_need.h"

#include <gmock/gmock.h>

#include "baton/kernels/workspace.h"

namespace baton::worker {
namespace {

using testing::HasSubstr;

constexpr std::uint64_t mib = std::uint64_t{1} << 20;

models::ModelConfig smollm2_135m() {
  models::ModelConfig model;
  model.layers = 30;
  model.width = 576;
  model.heads = 9;
  model.kv_heads = 3;
  model.head_dim = 64;
  model.ffn_width = 1536;
  model.vocabulary = 49'152;
  model.context_length = 8192;
  model.groups.emplace_back().layers.resize(30);
  model.ropes.push_back({.rotary_dim = 64});
  return model;
}

/// Of a model with the usual options.
MemoryNeed usual_need(const models::ModelConfig& model, std::uint64_t file_bytes, int threads,
                      std::uint64_t limit_bytes) {
  kernels::ThreadPool pool(1);
  const auto kernels = kernels::make_kernels("cpu", pool).value();
  engine::CacheShape shape;
  const auto steps = [&] {
    models::StepSize step = largest_step(512, model.context_length, shape);
    step.threads = threads;
    return models::most_step_bytes(model, *kernels, step) +
           static_cast<std::uint64_t>(threads) * kernels::thread_stack_bytes;
  };
  MemoryNeed need;
  need.weights = file_bytes;
  need.position_tables = models::position_table_bytes(model, model.context_length);
  shape.positions = 2 * model.context_length;
  need.steps = steps();
  shape.positions = default_cache_positions(model, shape, model.context_length, need, limit_bytes);
  need.steps = steps();
  need.cache = engine::cache_bytes(engine::arena_config(model, shape));
  return need;
}

TEST(MemoryNeed, IsRefusedWhereItExceedsTheLimitWithAdviceAgainstTheLargestPart) {
  const auto refusal = [](const MemoryNeed& need) {
    const auto checked = check_memory(need, 1000 * mib);
    EXPECT_TRUE(checked.has_error());
    return checked.has_error() ? checked.error() : Error();
  };
  EXPECT_EQ(refusal({.weights = 2000 * mib}).reason(), Reason::bad_config);
  EXPECT_THAT(refusal({.weights = 2000 * mib}).message(), HasSubstr("model alone is too large"));
  EXPECT_THAT(refusal({.steps = 2000 * mib}).message(), HasSubstr("lower token_budget"));
  EXPECT_THAT(refusal({.position_tables = 2000 * mib}).message(), HasSubstr("context_length"));
  EXPECT_THAT(refusal({.cache = 2000 * mib}).message(), HasSubstr("lower cache_tokens"));
  EXPECT_THAT(refusal({.cache = 2000 * mib}).message(), HasSubstr("the limit is 1000 MiB"));
  // Parts that each fit.
  EXPECT_THAT(refusal({400 * mib, 100 * mib, 300 * mib, 200 * mib}).message(),
              HasSubstr("lower cache_tokens"));
  EXPECT_TRUE(check_memory({400 * mib, 60 * mib, 300 * mib, 200 * mib}, 1000 * mib).has_value());
}

TEST(MemoryNeed, OfASmallModelLeavesSmallMachinesTheWholeShareForItsCache) {
  const models::ModelConfig model = smollm2_135m();
  for (const std::uint64_t limit : {1024 * mib, 2048 * mib}) {
    for (const int threads : {1, 4, 16}) {
      // As F16, the largest file.
      const MemoryNeed need = usual_need(model, 270 * mib, threads, limit);
      EXPECT_TRUE(check_memory(need, limit).has_value()) << need.steps / mib;
      EXPECT_GT(need.cache, std::min(limit / 4, 360 * mib) - 8 * mib);
      EXPECT_LT(need.steps, 128 * mib);
    }
  }
}

TEST(MemoryNeed, ShrinksACacheThatNobodySizedBeforeItRefuses) {
  const models::ModelConfig model = smollm2_135m();
  const MemoryNeed need = usual_need(model, 270 * mib, 2, 448 * mib);
  EXPECT_TRUE(check_memory(need, 448 * mib).has_value());
  EXPECT_LT(need.cache, 448 * mib / 4);
  EXPECT_TRUE(check_memory(usual_need(model, 270 * mib, 2, 300 * mib), 300 * mib).has_error());
}

TEST(MemoryNeed, CountsLogitsOfAsManySequencesAsTheCacheHasBlocks) {
  engine::CacheShape shape;
  shape.positions = 640;
  EXPECT_EQ(largest_step(512, 8192, shape).logits_rows, 10);
  EXPECT_EQ(largest_step(512, 8192, shape).positions, 640);
  EXPECT_EQ(largest_step(4, 100, shape).logits_rows, 4);
  EXPECT_EQ(largest_step(4, 100, shape).positions, 100);
}

}  // namespace
}  // namespace baton::worker
