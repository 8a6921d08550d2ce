// What a step checks, tells its observer and does with cancelled sequences.
#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "baton/models/model.h"

#include "support/models/cached_run.h"
#include "support/models/random_model.h"

namespace baton::models {
namespace {

using test::CachedRun;
using testing::ElementsAre;

class Forward : public testing::Test {
 protected:
  Forward() { reset({.layers = 4}); }

  void reset(const test::RandomModel& spec) {
    const auto file = test::make_random_model(spec);
    model_ =
        Model::load(file, config_from(file).value(), *kernels_, {.context_length = 128}).value();
  }

  static CachedRun::Part part(int sequence, const std::vector<TokenId>& tokens,
                              LogitRows logits = LogitRows::all) {
    return {sequence, tokens, logits};
  }

  kernels::ThreadPool pool_{2};
  std::unique_ptr<kernels::Kernels> kernels_ = kernels::make_kernels("cpu", pool_).value();
  std::unique_ptr<Model> model_;
  const std::vector<TokenId> a_ = test::random_tokens(20, 101, 1);
  const std::vector<TokenId> b_ = test::random_tokens(33, 101, 2);
  const std::vector<TokenId> c_ = test::random_tokens(7, 101, 3);
};

/// Cancels sequences after given layers and writes down what it is told.
class Recorder : public StepObserver {
 public:
  struct Cancel {
    std::size_t sequence;
    int after_layer;
  };
  explicit Recorder(std::vector<Cancel> cancels = {}) : cancels_(std::move(cancels)) {}

  void layer_done(int layer) override { layers.push_back(layer); }
  bool cancelled(std::size_t sequence) override {
    asked.insert(sequence);
    for (const Cancel& cancel : cancels_) {
      if (cancel.sequence == sequence && layers.back() >= cancel.after_layer) return true;
    }
    return false;
  }

  std::vector<int> layers;
  std::set<std::size_t> asked;

 private:
  std::vector<Cancel> cancels_;
};

std::vector<std::vector<float>> rows_of(const StepOutput& output, std::size_t sequence,
                                        std::size_t count) {
  std::vector<std::vector<float>> rows;
  for (std::size_t i = 0; i < count; ++i) {
    const float* row = output.logits.row(output.first_logits_row[sequence] + static_cast<int>(i));
    rows.emplace_back(row, row + output.logits.cols);
  }
  return rows;
}

TEST_F(Forward, gives_logits_only_for_wanted_rows_in_batch_order) {
  CachedRun run(*model_, {.sequences = 3, .positions = 64});
  const std::vector parts = {part(0, a_, LogitRows::last), part(1, b_, LogitRows::none),
                             part(2, c_, LogitRows::all)};
  const StepOutput output = run.step(parts).value();
  EXPECT_THAT(output.first_logits_row, ElementsAre(0, -1, 1));
  EXPECT_EQ(output.logits.rows, 8);
  EXPECT_EQ(output.logits.cols, 101);
  const auto last = rows_of(output, 0, 1);
  const auto all = rows_of(output, 2, 7);
  CachedRun alone(*model_, {.sequences = 3, .positions = 64});
  EXPECT_EQ(last[0], alone.append(0, a_).back());
  EXPECT_EQ(all, alone.append(2, c_));
}

TEST_F(Forward, tells_each_layer_once_in_order) {
  CachedRun run(*model_, {.positions = 64});
  const std::vector parts = {part(0, a_)};
  Recorder recorder;
  ASSERT_TRUE(run.step(parts, &recorder).has_value());
  EXPECT_THAT(recorder.layers, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(recorder.asked, ElementsAre(0));
}

TEST_F(Forward, has_a_layers_keys_in_the_cache_when_it_tells_of_it) {
  CachedRun run(*model_, {.positions = 64});
  CachedRun finished(*model_, {.positions = 64});
  finished.append(0, a_);
  const auto expected = finished.cached_bytes(0);
  const std::size_t layer_bytes = expected.size() / 4;
  class Look : public StepObserver {
   public:
    Look(CachedRun& cached, std::int64_t length) : cached_(cached), length_(length) {}
    void layer_done(int) override {
      cached_.set_length(0, length_);
      seen.push_back(cached_.cached_bytes(0));
      cached_.set_length(0, 0);
    }
    bool cancelled(std::size_t) override { return false; }
    std::vector<std::vector<std::byte>> seen;

   private:
    CachedRun& cached_;
    std::int64_t length_;
  } look(run, static_cast<std::int64_t>(a_.size()));
  const std::vector parts = {part(0, a_)};
  ASSERT_TRUE(run.step(parts, &look).has_value());
  ASSERT_EQ(look.seen.size(), 4u);
  for (std::size_t layer = 0; layer < 4; ++layer) {
    EXPECT_EQ(0, std::memcmp(look.seen[layer].data() + layer * layer_bytes,
                             expected.data() + layer * layer_bytes, layer_bytes))
        << layer;
  }
}

TEST_F(Forward, keeps_the_bits_of_the_others_when_a_sequence_leaves_between_layers) {
  for (const std::size_t leaving : {0u, 1u, 2u}) {
    for (const int after : {0, 2, 3}) {
      CachedRun run(*model_, {.sequences = 3, .positions = 64});
      CachedRun full(*model_, {.sequences = 3, .positions = 64});
      const std::vector parts = {part(0, a_), part(1, b_), part(2, c_)};
      Recorder recorder({{leaving, after}});
      const StepOutput output = run.step(parts, &recorder).value();
      std::vector<std::vector<std::vector<float>>> kept(3);
      for (const std::size_t other : {0u, 1u, 2u}) {
        if (other == leaving) {
          EXPECT_EQ(output.first_logits_row[other], -1);
        } else {
          kept[other] = rows_of(output, other, parts[other].tokens.size());
        }
      }
      const StepOutput undisturbed = full.step(parts).value();
      for (const std::size_t other : {0u, 1u, 2u}) {
        if (other == leaving) continue;
        EXPECT_EQ(kept[other], rows_of(undisturbed, other, parts[other].tokens.size()));
        EXPECT_EQ(run.cached_bytes(static_cast<int>(other)),
                  full.cached_bytes(static_cast<int>(other)));
      }
    }
  }
}

TEST_F(Forward, lets_a_sequence_leave_after_the_last_layer_whatever_rows_it_wants) {
  const std::vector parts = {part(0, a_, LogitRows::last), part(1, b_, LogitRows::none),
                             part(2, c_, LogitRows::all)};
  CachedRun full(*model_, {.sequences = 3, .positions = 64});
  const StepOutput undisturbed = full.step(parts).value();
  const auto last = rows_of(undisturbed, 0, 1);
  const auto all = rows_of(undisturbed, 2, c_.size());
  for (const std::size_t leaving : {0u, 1u, 2u}) {
    CachedRun run(*model_, {.sequences = 3, .positions = 64});
    Recorder recorder({{leaving, 3}});
    const StepOutput output = run.step(parts, &recorder).value();
    EXPECT_EQ(output.first_logits_row[1], -1);
    EXPECT_EQ(output.first_logits_row[0] == -1, leaving == 0);
    EXPECT_EQ(output.first_logits_row[2] == -1, leaving == 2);
    if (leaving != 0) {
      EXPECT_EQ(rows_of(output, 0, 1), last);
    }
    if (leaving != 2) {
      EXPECT_EQ(rows_of(output, 2, c_.size()), all);
    }
  }
}

TEST_F(Forward, writes_nothing_for_a_sequence_after_it_left) {
  CachedRun run(*model_, {.sequences = 2, .positions = 64});
  const std::vector parts = {part(0, a_), part(1, b_)};
  Recorder recorder({{0, 1}});
  ASSERT_TRUE(run.step(parts, &recorder).has_value());
  const auto bytes = run.cached_bytes(0);
  const std::size_t layer_bytes = bytes.size() / 4;
  // The cache began as not-a-number; layers 2 and 3 must still be.
  const std::vector<std::byte> untouched(2 * layer_bytes, std::byte{0xFF});
  EXPECT_EQ(0, std::memcmp(bytes.data() + 2 * layer_bytes, untouched.data(), untouched.size()));
  EXPECT_NE(0, std::memcmp(bytes.data() + layer_bytes, untouched.data(), layer_bytes));
}

TEST_F(Forward, ends_early_when_every_sequence_left) {
  CachedRun run(*model_, {.sequences = 2, .positions = 64});
  const std::vector parts = {part(0, a_), part(1, b_)};
  Recorder recorder({{0, 0}, {1, 1}});
  const StepOutput output = run.step(parts, &recorder).value();
  EXPECT_THAT(recorder.layers, ElementsAre(0, 1));
  EXPECT_EQ(output.logits.rows, 0);
  EXPECT_THAT(output.first_logits_row, ElementsAre(-1, -1));
}

TEST_F(Forward, of_nothing_gives_nothing) {
  CachedRun run(*model_, {.positions = 64});
  const StepOutput output = run.step({}).value();
  EXPECT_EQ(output.logits.rows, 0);
  EXPECT_TRUE(output.first_logits_row.empty());
}

TEST_F(Forward, refuses_tokens_outside_the_vocabulary_and_writes_nothing) {
  for (const TokenId bad : {-1, 101, 1 << 30}) {
    CachedRun run(*model_, {.sequences = 2, .positions = 64});
    const std::vector<TokenId> wrong = {1, 2, bad};
    const std::vector parts = {part(0, a_), part(1, wrong)};
    const auto output = run.step(parts);
    ASSERT_TRUE(output.has_error());
    EXPECT_EQ(output.error().reason(), Reason::invalid_request);
    run.set_length(0, 16);
    const auto bytes = run.cached_bytes(0);
    EXPECT_TRUE(std::ranges::all_of(bytes, [](std::byte b) { return b == std::byte{0xFF}; }));
  }
}

TEST_F(Forward, refuses_positions_outside_the_context) {
  CachedRun run(*model_, {.positions = 256});
  const std::vector parts = {part(0, c_)};
  for (const std::int64_t first :
       {std::int64_t{-1}, std::int64_t{122}, std::numeric_limits<std::int64_t>::max() - 1}) {
    run.set_length(0, first);
    const auto output = run.step(parts);
    ASSERT_TRUE(output.has_error()) << first;
    EXPECT_EQ(output.error().reason(), Reason::invalid_request);
  }
  run.set_length(0, 0);
  EXPECT_TRUE(run.step(parts).has_value());
}

TEST_F(Forward, refuses_a_block_table_that_is_short_or_names_a_block_that_is_not_there) {
  const ModelConfig& config = model_->config();
  auto arena =
      kvcache::Arena::create({.unit = {tensor::CacheDtype::bf16, config.kv_heads, config.head_dim},
                              .block_units = 1,
                              .groups = {{4, 3}}})
          .value();
  const std::vector<std::vector<std::int32_t>> wrong = {{}, {0}, {0, 3}, {0, -2}, {-1, 1}};
  for (const auto& table : wrong) {
    const std::vector<std::int32_t>* tables[] = {&table};
    const SequenceRows rows{a_, 0, tables, LogitRows::last};
    const auto output = model_->forward({&rows, 1}, arena, nullptr);
    ASSERT_TRUE(output.has_error()) << testing::PrintToString(table);
    EXPECT_EQ(output.error().reason(), Reason::invalid_request);
  }
  const std::vector<std::int32_t> right = {2, 0};
  const std::vector<std::int32_t>* tables[] = {&right};
  const SequenceRows rows{a_, 0, tables, LogitRows::last};
  EXPECT_TRUE(model_->forward({&rows, 1}, arena, nullptr).has_value());
}

TEST_F(Forward, uses_the_memory_of_the_largest_step_again) {
  CachedRun run(*model_, {.sequences = 2, .positions = 128});
  run.append(0, b_);
  const std::size_t bytes = model_->weight_bytes();
  run.append(0, a_);
  run.append(1, b_);
  EXPECT_EQ(model_->weight_bytes(), bytes);
}

TEST_F(Forward, needs_no_longer_context_than_the_models_own) {
  const auto file = test::make_random_model({});
  const auto config = config_from(file).value();
  for (const std::int64_t length : {std::int64_t{-1}, config.context_length + 1}) {
    const auto model = Model::load(file, config, *kernels_, {.context_length = length});
    ASSERT_TRUE(model.has_error());
    EXPECT_EQ(model.error().reason(), Reason::bad_config);
  }
}

TEST_F(Forward, R14_refuses_a_context_whose_position_tables_are_out_of_proportion) {
  const auto file = test::make_random_model({.head_dim = 64});
  auto config = config_from(file).value();
  config.context_length = 1 << 24;
  const auto model = Model::load(file, config, *kernels_, {});
  ASSERT_TRUE(model.has_error());
  EXPECT_EQ(model.error().reason(), Reason::bad_config);
  EXPECT_TRUE(Model::load(file, config, *kernels_, {.context_length = 4096}).has_value());
}

}  // namespace
}  // namespace baton::models
