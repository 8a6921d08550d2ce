// P1 at the level of a model: in one numerics class the logits of every position and the cached
// bytes have the same bits however the sequence was run.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <memory>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "baton/models/model.h"

#include "support/models/cached_run.h"
#include "support/models/random_model.h"
#include "support/models/rewrite.h"

namespace baton::models {
namespace {

using modelfile::GgmlType;
using test::CachedRun;

/// One sequence's outcome: the bits of all logits, and of the cache.
struct Outcome {
  std::vector<std::vector<float>> logits;
  std::vector<std::byte> cache;
};

testing::AssertionResult same_bits(const Outcome& a, const Outcome& b) {
  if (a.logits.size() != b.logits.size()) return testing::AssertionFailure() << "rows missing";
  for (std::size_t row = 0; row < a.logits.size(); ++row) {
    if (std::memcmp(a.logits[row].data(), b.logits[row].data(),
                    a.logits[row].size() * sizeof(float)) != 0) {
      return testing::AssertionFailure() << "logits differ at position " << row;
    }
  }
  if (a.cache != b.cache) return testing::AssertionFailure() << "cached bytes differ";
  return testing::AssertionSuccess();
}

/// Sets of the classes lanes16 and tiles16 that this processor has.
std::vector<std::string> sets_of_the_classes() {
  std::vector<std::string> sets;
  for (const std::string_view set : kernels::available_sets()) {
    if (set != "ref") sets.emplace_back(set);
  }
  return sets;
}

/// The scalar set that defines a set's class.
std::string definition_of(const std::string& set) {
  return set.ends_with("_tiles") ? "spec_tiles" : "spec";
}

/// A model loaded for one set and thread count.
class Loaded {
 public:
  Loaded(const modelfile::ModelFile& file, const std::string& set, int threads)
      : pool_(threads),
        kernels_(kernels::make_kernels(set, pool_).value()),
        model_(Model::load(file, config_from(file).value(), *kernels_, {}).value()) {}
  Model& operator*() { return *model_; }

 private:
  kernels::ThreadPool pool_;
  std::unique_ptr<kernels::Kernels> kernels_;
  std::unique_ptr<Model> model_;
};

struct Way {
  int block_units = 4;
  std::vector<int> chunks;   ///< token counts of the steps, in all the sequence's length
  int mates = 0;             ///< other sequences in every step
  bool drop_blocks = false;  ///< blocks that no later token sees leave before each step
  tensor::CacheDtype cache = tensor::CacheDtype::bf16;
};

std::vector<int> random_chunks(int length, int largest, std::mt19937_64& random) {
  std::vector<int> chunks;
  for (int left = length; left > 0; left -= chunks.back()) {
    chunks.push_back(std::uniform_int_distribution<int>(1, std::min(left, largest))(random));
  }
  return chunks;
}

Outcome run(Model& model, const std::vector<TokenId>& tokens, const Way& way, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto length = static_cast<std::int64_t>(tokens.size());
  CachedRun cached(model, {.dtype = way.cache,
                           .block_units = way.block_units,
                           .sequences = way.mates + 1,
                           .positions = 2 * length,
                           .seed = seed});
  const int mine = way.mates / 2;  // mates before and after it
  Outcome outcome;
  std::size_t done = 0;
  for (const int chunk : way.chunks) {
    std::vector<std::vector<TokenId>> theirs;
    std::vector<CachedRun::Part> parts;
    for (int sequence = 0; sequence <= way.mates; ++sequence) {
      const int count = std::uniform_int_distribution<int>(1, 5)(random);
      theirs.push_back(test::random_tokens(count, model.config().vocabulary, random()));
    }
    for (int sequence = 0; sequence <= way.mates; ++sequence) {
      if (way.drop_blocks) cached.drop_unseen_blocks(sequence);
      if (sequence == mine) {
        parts.push_back({mine, {tokens.data() + done, static_cast<std::size_t>(chunk)}});
      } else if (cached.length(sequence) + 5 <= 2 * length) {
        const auto& some = theirs[static_cast<std::size_t>(sequence)];
        parts.push_back({sequence, some, random() % 2 == 0 ? LogitRows::last : LogitRows::none});
      }
    }
    const auto output = cached.step(parts).value();
    const auto at = std::ranges::find(parts, mine, &CachedRun::Part::sequence) - parts.begin();
    const int first = output.first_logits_row[static_cast<std::size_t>(at)];
    for (int i = 0; i < chunk; ++i) {
      const float* row = output.logits.row(first + i);
      outcome.logits.emplace_back(row, row + output.logits.cols);
    }
    done += static_cast<std::size_t>(chunk);
  }
  // Not-a-number everywhere would be the same bits, too.
  for (const auto& row : outcome.logits) {
    EXPECT_TRUE(std::ranges::all_of(row, [](float x) { return std::isfinite(x); }));
  }
  if (!way.drop_blocks) outcome.cache = cached.cached_bytes(mine);
  return outcome;
}

struct Shape {
  const char* name;
  test::RandomModel model;
  int tokens;
  tensor::CacheDtype cache = tensor::CacheDtype::bf16;

  friend void PrintTo(const Shape& shape, std::ostream* out) { *out << shape.name; }
};

// Odd on purpose: widths that are no multiple of 64 or 256, heads of 64, 80 and 256, one KV head,
// windows that end inside a unit, vocabularies that are no multiple of 16.
const Shape shapes[] = {
    {"f32", {.type = GgmlType::f32, .bias = true}, 83},
    {"bf16", {.type = GgmlType::bf16, .width = 96, .heads = 3, .kv_heads = 1, .head_dim = 32}, 75},
    {"f16", {.type = GgmlType::f16, .tied_output = true}, 67},
    {"q8_0", {.type = GgmlType::q8_0, .window = 21}, 83},
    {"q4_0", {.type = GgmlType::q4_0, .width = 160, .heads = 2, .kv_heads = 1, .head_dim = 80}, 70},
    {"q4_1", {.type = GgmlType::q4_1, .tied_output = true}, 97},
    {"smollm_wide",
     {.type = GgmlType::q4_1,
      .layers = 1,
      .width = 576,
      .heads = 9,
      .kv_heads = 3,
      .head_dim = 64,
      .ffn_width = 160},
     39},
    {"gemma_heads_of_256",
     {.family = "gemma3",
      .type = GgmlType::q8_0,
      .width = 64,
      .heads = 2,
      .kv_heads = 1,
      .head_dim = 256,
      .vocabulary = 77,
      .window = 19},
     69},
    {"gemma_bf16",
     {.family = "gemma3",
      .type = GgmlType::bf16,
      .layers = 3,
      .heads = 4,
      .kv_heads = 1,
      .head_dim = 32,
      .window = 33,
      .tied_output = true},
     140},
    {"cache_of_q8_0",
     {.type = GgmlType::q8_0, .width = 96, .heads = 3, .kv_heads = 1, .head_dim = 64, .window = 21},
     83,
     tensor::CacheDtype::q8_0},
    {"gemma_cache_of_q8_0",
     {.family = "gemma3",
      .type = GgmlType::q4_1,
      .layers = 3,
      .width = 64,
      .heads = 6,
      .kv_heads = 2,
      .head_dim = 96,
      .window = 33},
     70,
     tensor::CacheDtype::q8_0},
};

class EveryShape : public testing::TestWithParam<Shape> {
 protected:
  void SetUp() override {
    tokens_ = test::random_tokens(GetParam().tokens, GetParam().model.vocabulary, 7);
    whole_.chunks = {static_cast<int>(tokens_.size())};
    whole_.cache = GetParam().cache;
  }

  const modelfile::ModelFile file_ = test::make_random_model(GetParam().model);
  std::vector<TokenId> tokens_;
  Way whole_;
};

TEST_P(EveryShape, gives_the_same_bits_in_every_set_of_a_class_and_thread_count) {
  for (const std::string& set : sets_of_the_classes()) {
    Loaded definition(file_, definition_of(set), 1);
    const Outcome expected = run(*definition, tokens_, whole_, 1);
    for (const int threads : {1, 2, 3, 4}) {
      Loaded model(file_, set, threads);
      EXPECT_TRUE(same_bits(expected, run(*model, tokens_, whole_, 2))) << set << " " << threads;
    }
  }
}

TEST_P(EveryShape, gives_the_same_bits_one_token_at_a_time_as_in_one_step) {
  for (const std::string& set : sets_of_the_classes()) {
    Loaded model(file_, set, 2);
    const Outcome expected = run(*model, tokens_, whole_, 1);
    Way single = whole_;
    single.chunks.assign(tokens_.size(), 1);
    EXPECT_TRUE(same_bits(expected, run(*model, tokens_, single, 2))) << set;
    single.block_units = 1;
    EXPECT_TRUE(same_bits(expected, run(*model, tokens_, single, 3))) << set;
  }
}

TEST_P(EveryShape, gives_the_same_bits_in_any_chunks_beside_any_batch_mates) {
  std::mt19937_64 random(GetParam().model.seed);
  for (const std::string& set : sets_of_the_classes()) {
    Loaded model(file_, set, 2);
    const Outcome expected = run(*model, tokens_, whole_, 1);
    for (const int mates : {0, 1, 4}) {
      for (const int largest : {7, 40}) {
        Way way = whole_;
        way.chunks = random_chunks(static_cast<int>(tokens_.size()), largest, random);
        way.mates = mates;
        way.block_units = mates == 1 ? 1 : 4;
        EXPECT_TRUE(same_bits(expected, run(*model, tokens_, way, random())))
            << set << ", " << mates << " mates, " << testing::PrintToString(way.chunks);
      }
    }
  }
}

class WindowedShape : public EveryShape {};

TEST_P(WindowedShape, gives_the_same_bits_without_the_blocks_before_its_window) {
  std::mt19937_64 random(5);
  for (const std::string& set : sets_of_the_classes()) {
    Loaded model(file_, set, 2);
    Outcome expected = run(*model, tokens_, whole_, 1);
    expected.cache.clear();
    Way way = whole_;
    way.chunks = random_chunks(static_cast<int>(tokens_.size()), 5, random);
    way.drop_blocks = true;
    way.block_units = 1;
    way.mates = 1;
    EXPECT_TRUE(same_bits(expected, run(*model, tokens_, way, 3))) << set;
  }
}

std::string name_of(const testing::TestParamInfo<Shape>& tested) { return tested.param.name; }

std::vector<Shape> windowed_shapes() {
  std::vector<Shape> windowed;
  std::ranges::copy_if(shapes, std::back_inserter(windowed),
                       [](const Shape& shape) { return shape.model.window > 0; });
  return windowed;
}

INSTANTIATE_TEST_SUITE_P(SameBits, EveryShape, testing::ValuesIn(shapes), name_of);
INSTANTIATE_TEST_SUITE_P(SameBits, WindowedShape, testing::ValuesIn(windowed_shapes()), name_of);

/// Exchanges two hidden units of a layer's feed-forward part: the same model on paper, with the
/// sums over the hidden units in another order.
modelfile::ModelFile with_exchanged_units(const modelfile::ModelFile& file, int width, int ffn) {
  test::Changes changes;
  changes.edit = [=](const std::string& name, std::vector<float>& values) {
    constexpr int a = 1;
    constexpr int b = 50;
    if (name == "blk.0.ffn_gate.weight" || name == "blk.0.ffn_up.weight") {
      for (int i = 0; i < width; ++i) std::swap(values[a * width + i], values[b * width + i]);
    }
    if (name == "blk.0.ffn_down.weight") {
      for (int o = 0; o < width; ++o) std::swap(values[o * ffn + a], values[o * ffn + b]);
    }
  };
  return test::rewrite(file, changes);
}

TEST(SameBitsCheck, catches_one_sum_in_another_order) {
  const test::RandomModel spec{.type = GgmlType::f32};
  const modelfile::ModelFile file = test::make_random_model(spec);
  const modelfile::ModelFile other = with_exchanged_units(file, spec.width, spec.ffn_width);
  const auto tokens = test::random_tokens(64, spec.vocabulary, 3);
  Way whole;
  whole.chunks = {64};
  for (const std::string& set : sets_of_the_classes()) {
    Loaded model(file, set, 1);
    Loaded reordered(other, set, 1);
    const Outcome a = run(*model, tokens, whole, 1);
    const Outcome b = run(*reordered, tokens, whole, 1);
    EXPECT_FALSE(same_bits(a, b)) << set;
    for (std::size_t i = 0; i < a.logits[0].size(); ++i) {
      EXPECT_NEAR(a.logits[0][i], b.logits[0][i], 0.5f) << set;
    }
  }
}

}  // namespace
}  // namespace baton::models
