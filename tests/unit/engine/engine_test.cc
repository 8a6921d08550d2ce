#include "baton/engine/engine.h"

#include <cstring>
#include <functional>
#include <limits>
#include <set>

#include <gtest/gtest.h>

#include "baton/engine/cache_shape.h"
#include "baton/engine/core/planner.h"
#include "baton/engine/local_runner.h"

#include "support/engine/fake_model.h"

namespace baton::engine {
namespace {

constexpr ModelLimits limits{.vocabulary = 101, .context_length = 4096};

/// One worker: a cache and an engine over a model.
struct Worker {
  explicit Worker(test::FakeModelOptions options = {}, std::int64_t positions = 640)
      : model(std::move(options)),
        arena(kvcache::Arena::create(
                  arena_config(model.config(), {.positions = positions, .block_units = 1}))
                  .value()),
        pools(pool_config(model.config(), arena.config(), true)),
        engine(model, arena, pools, table) {}

  SequenceId add_prompt(std::vector<TokenId> prompt, std::int64_t max_tokens = 20) {
    SequenceSpec spec;
    spec.prompt = std::move(prompt);
    spec.params.temperature = 0;
    spec.params.max_tokens = max_tokens;
    spec.logits_digest = true;
    return table.add(Sequence::for_prefill(std::move(spec), limits).value());
  }

  bool at_baseline() const {
    for (int g = 0; g < pools.groups(); ++g) {
      if (pools.usage(g) != 0) return false;
    }
    return true;
  }

  test::FakeModel model;
  kvcache::Arena arena;
  kvcache::BlockPools pools;
  SequenceTable table;
  Engine engine;
};

/// What a test does between layers.
class Watcher : public StepWatcher {
 public:
  void layer_done(int layer) override {
    layers.push_back(layer);
    if (on_layer) on_layer(layer);
  }
  bool cancelled(SequenceId id) override { return cancel.contains(id); }

  std::vector<int> layers;
  std::set<SequenceId> cancel;
  std::function<void(int)> on_layer;
};

TEST(Engine, AChunkThatDoesNotEndThePromptSamplesNothing) {
  Worker worker;
  const SequenceId id = worker.add_prompt({1, 2, 3, 4, 5});
  auto events = worker.engine.step({.prefill = {{id, 0, 3}}}, nullptr).value();
  EXPECT_TRUE(events.tokens.empty());
  EXPECT_EQ(events.chunks, (std::vector<PrefillRows>{{id, 0, 3}}));
  events = worker.engine.step({.prefill = {{id, 3, 2}}}, nullptr).value();
  ASSERT_EQ(events.tokens.size(), 1u);
  EXPECT_EQ(events.tokens[0].index, 0);
  EXPECT_TRUE(events.tokens[0].logits_digest.has_value());
  EXPECT_EQ(worker.table.find(id)->cached(), 5);
  EXPECT_EQ(events.shape, (StepShape{.rows = 2, .keys = 9}));
  EXPECT_GT(events.took, Duration::zero());
}

TEST(Engine, DecodeContinuesAtPositionPWithOneRowAndCountsNoPromptRows) {
  Worker prefill;
  Worker decode;
  const SequenceId prompt = prefill.add_prompt({1, 2, 3});
  const auto first = prefill.engine.step({.prefill = {{prompt, 0, 3}}}, nullptr).value();
  SequenceSpec spec;
  spec.prompt = {1, 2, 3};
  spec.generated = {first.tokens.at(0).id};
  spec.params = prefill.table.find(prompt)->params();
  kvcache::SequenceBlocks grant;
  ASSERT_TRUE(decode.pools.extend(grant, {.next = 3, .end = 4}));
  const kvcache::SequenceBlocks& source = prefill.table.find(prompt)->blocks();
  for (int g = 0; g < 2; ++g) {
    for (int layer = 0; layer < 2; ++layer) {
      std::memcpy(decode.arena.block(g, layer, tensor::KvPart::k, grant.group(g).blocks().at(0)),
                  prefill.arena.block(g, layer, tensor::KvPart::k, source.group(g).blocks().at(0)),
                  decode.arena.block_bytes());
    }
  }
  const SequenceId id = decode.table.add(
      Sequence::for_decode(std::move(spec), limits, 3, grant, decode.pools).value());
  EXPECT_EQ(decode.table.find(id)->cached(), 3);
  const auto second = decode.engine.step({.decode = {{id, 3}}}, nullptr).value();
  EXPECT_EQ(decode.table.find(id)->cached(), 4);
  EXPECT_EQ(decode.engine.counters().prefill_rows, 0u);
  EXPECT_EQ(decode.engine.counters().decode_rows, 1u);
  EXPECT_EQ(decode.model.rows_seen(), 1);
  const auto alone = prefill.engine.step({.decode = {{prompt, 3}}}, nullptr).value();
  EXPECT_EQ(second.tokens.at(0).id, alone.tokens.at(0).id);
}

TEST(Engine, ARefusedPlanRunsNothing) {
  Worker worker;
  const SequenceId id = worker.add_prompt({1, 2, 3});
  const auto refused = worker.engine.step({.prefill = {{id, 1, 2}}}, nullptr);
  EXPECT_EQ(refused.error().reason(), Reason::length_mismatch);
  EXPECT_EQ(worker.model.rows_seen(), 0);
  EXPECT_TRUE(worker.at_baseline());
}

TEST(Engine, ACancelledSequenceFreesItsBlocksBetweenLayersAndTheOthersAreUnmoved) {
  Worker worker;
  const std::vector<TokenId> prompt = {5, 6, 7, 8, 9};
  const SequenceId kept = worker.add_prompt(prompt);
  const SequenceId dropped = worker.add_prompt(std::vector<TokenId>(40, 3));
  Watcher watcher;
  std::int32_t free_after = 0;
  watcher.on_layer = [&](int layer) {
    if (layer == 1) watcher.cancel.insert(dropped);
    if (layer == 2) free_after = worker.pools.available_blocks(0);
  };
  const StepPlan plan{.prefill = {{kept, 0, 5}, {dropped, 0, 40}}};
  const auto events = worker.engine.step(plan, &watcher).value();
  EXPECT_EQ(watcher.layers, (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(free_after, 40 - 1);
  EXPECT_EQ(events.cancelled, std::vector<SequenceId>{dropped});
  EXPECT_EQ(worker.table.find(dropped), nullptr);
  EXPECT_EQ(events.chunks, (std::vector<PrefillRows>{{kept, 0, 5}}));
  ASSERT_EQ(events.tokens.size(), 1u);
  Worker alone;
  const SequenceId same = alone.add_prompt(prompt);
  const auto expected = alone.engine.step({.prefill = {{same, 0, 5}}}, nullptr).value();
  EXPECT_EQ(events.tokens[0].logits_digest, expected.tokens.at(0).logits_digest);
  worker.table.remove(kept, worker.pools);
  EXPECT_TRUE(worker.at_baseline());
}

TEST(Engine, ARowWithNaNFailsItsSequenceAndNoOther) {
  test::FakeModelOptions options;
  options.spoil = [](std::int64_t position, float* logits) {
    if (position == 2) logits[50] = std::numeric_limits<float>::quiet_NaN();
  };
  Worker worker(options);
  const SequenceId bad = worker.add_prompt({1, 2, 3});
  const SequenceId good = worker.add_prompt({1, 2, 3, 4});
  const auto events = worker.engine.step({.prefill = {{bad, 0, 3}, {good, 0, 4}}}, nullptr).value();
  ASSERT_EQ(events.failed.size(), 1u);
  EXPECT_EQ(events.failed[0].sequence, bad);
  ASSERT_EQ(events.tokens.size(), 1u);
  EXPECT_EQ(events.tokens[0].sequence, good);
}

TEST(Engine, FreedBlocksArePoisoned) {
  Worker worker;
  const SequenceId id = worker.add_prompt({1, 2, 3});
  worker.engine.step({.prefill = {{id, 0, 3}}}, nullptr).value();
  const std::int32_t block = worker.table.find(id)->blocks().group(0).blocks().at(0);
  worker.table.remove(id, worker.pools);
  worker.engine.poison_freed();
  const std::byte* memory = worker.arena.block(0, 1, tensor::KvPart::v, block);
  for (std::size_t i = 0; i < worker.arena.block_bytes(); ++i) {
    ASSERT_EQ(memory[i], std::byte{0xDD});
  }
}

TEST(Engine, AFinishedSequenceKeepsItsBlocksUntilItIsRemoved) {
  Worker worker;
  const SequenceId id = worker.add_prompt({1, 2, 3}, 1);
  const auto events = worker.engine.step({.prefill = {{id, 0, 3}}}, nullptr).value();
  EXPECT_EQ(events.tokens.at(0).finish, Finish::length);
  EXPECT_FALSE(worker.at_baseline());
  EXPECT_TRUE(worker.engine.step({.decode = {{id, 3}}}, nullptr).has_error());
  worker.table.remove(id, worker.pools);
  EXPECT_TRUE(worker.at_baseline());
}

}  // namespace
}  // namespace baton::engine
