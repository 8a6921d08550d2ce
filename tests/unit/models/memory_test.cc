// The bounds of what steps take, beside what they take.
#include "baton/models/memory.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <malloc.h>

#include "baton/models/model.h"
#include "baton/tensor/buffer.h"

#include "support/models/cached_run.h"
#include "support/models/random_model.h"

namespace baton::models {
namespace {

using modelfile::GgmlType;

constexpr int sequences = 2;

std::size_t heap_bytes() { return ::mallinfo2().uordblks + ::mallinfo2().hblkhd; }

/// Sanitizers have allocators of their own.
bool heap_is_known() {
  const std::size_t before = heap_bytes();
  const tensor::Buffer buffer(1 << 20);
  return heap_bytes() >= before + buffer.size();
}

struct Case {
  std::string set = "cpu";
  int threads = 1;
  std::int64_t rows = 0;
  test::RandomModel model;
  std::int64_t positions = 1300;
};

class StepMemory : public testing::Test {
 protected:
  void SetUp() override {
    if (!heap_is_known()) GTEST_SKIP() << "this allocator does not tell";
  }

  /// What steps of every kind have kept, and the bound.
  struct Bytes {
    std::size_t taken;
    std::size_t bound;
  };
  static Bytes bytes_of(const Case& each) {
    kernels::ThreadPool pool(each.threads);
    const auto kernels = kernels::make_kernels(each.set, pool).value();
    const auto file = test::make_random_model(each.model);
    const ModelConfig config = config_from(file).value();
    const auto model =
        Model::load(file, config, *kernels, {.context_length = each.positions}).value();
    test::CachedRun run(*model, {.sequences = sequences, .positions = each.positions});
    const std::size_t before = heap_bytes();
    fill(run, each);
    const std::size_t taken = heap_bytes() - before;
    StepSize step;
    step.rows = each.rows;
    step.logits_rows = each.rows;
    step.positions = each.positions;
    step.threads = each.threads;
    step.mixed_gate_up = mixed_gate_up(file, config);
    return {taken, most_step_bytes(config, *kernels, step)};
  }

 private:
  static std::int64_t next_chunk(std::int64_t chunk, std::int64_t rows) {
    return chunk > rows / 2 ? chunk * 7 / 8 : rows;
  }

  /// Long prompts in chunks of several sizes, then all of them at once, with all logits.
  static void fill(test::CachedRun& run, const Case& each) {
    const auto ids = test::random_tokens(static_cast<int>(each.rows), each.model.vocabulary, 1);
    for (int sequence = 0; sequence < sequences; ++sequence) {
      std::int64_t chunk = each.rows;
      for (; run.length(sequence) + 2 * each.rows < each.positions;
           chunk = next_chunk(chunk, each.rows)) {
        const std::span<const TokenId> part(ids.data(), static_cast<std::size_t>(chunk));
        const test::CachedRun::Part one[] = {{sequence, part}};
        ASSERT_TRUE(run.step(one).has_value());
      }
    }
    for (std::int64_t rows = each.rows / sequences; rows > 0; rows /= 2) {
      std::vector<test::CachedRun::Part> parts;
      for (int sequence = 0; sequence < sequences; ++sequence) {
        parts.push_back({sequence, {ids.data(), static_cast<std::size_t>(rows)}});
      }
      ASSERT_TRUE(run.step(parts).has_value());
    }
  }
};

// Sets of a class share the code that allocates: one speaks for all.
TEST_F(StepMemory, is_within_its_bound_for_every_set_type_and_family) {
  for (const std::string set : {"cpu", "ref"}) {
    for (const GgmlType type : {GgmlType::f32, GgmlType::q4_0}) {
      for (const std::string family : {"llama", "gemma3"}) {
        for (const int threads : {1, 4}) {
          const Case each{set, threads, 120, {.family = family, .type = type, .window = 1500}};
          const Bytes bytes = bytes_of(each);
          EXPECT_LE(bytes.taken, bytes.bound) << set << " " << family << " " << threads;
          EXPECT_GT(bytes.taken, bytes.bound / 3) << set << " " << family << " " << threads;
        }
      }
    }
  }
}

TEST_F(StepMemory, is_within_its_bound_where_bf16_is_multiplied_in_tiles) {
  const Bytes bytes = bytes_of({"spec_tiles", 1, 120, {.type = GgmlType::bf16}});
  EXPECT_LE(bytes.taken, bytes.bound);
  EXPECT_GT(bytes.taken, bytes.bound / 3);
}

TEST_F(StepMemory, is_within_its_bound_where_gate_and_up_stand_as_a_whole) {
  // A width that is no multiple of the next operation's groups.
  const Bytes bytes = bytes_of({"cpu", 3, 200, {.ffn_width = 90}});
  EXPECT_LE(bytes.taken, bytes.bound);
  EXPECT_GT(bytes.taken, bytes.bound / 3);
}

TEST_F(StepMemory, is_within_its_bound_where_attention_is_cut_into_segments) {
  const test::RandomModel wide = {.width = 32, .heads = 7, .kv_heads = 7, .head_dim = 256};
  const Bytes bytes = bytes_of({"cpu", 2, 24, wide, 2048});
  EXPECT_LE(bytes.taken, bytes.bound);
  EXPECT_GT(bytes.taken, bytes.bound / 3);
}

TEST_F(StepMemory, of_position_tables_is_what_they_take) {
  kernels::ThreadPool pool(1);
  const auto kernels = kernels::make_kernels("cpu", pool).value();
  const auto file = test::make_random_model({});
  const ModelConfig config = config_from(file).value();
  const auto loaded = [&](std::int64_t context) {
    return Model::load(file, config, *kernels, {.context_length = context}).value();
  };
  const auto one = loaded(1);
  const std::size_t before = heap_bytes();
  const auto longer = loaded(2000);
  const std::size_t tables = position_table_bytes(config, 2000);
  EXPECT_EQ(longer->weight_bytes() - one->weight_bytes(), tables - position_table_bytes(config, 1));
  EXPECT_GE(heap_bytes() - before, tables);
}

}  // namespace
}  // namespace baton::models
