// Tiny random models of every family against the logits of transformers in float32 (made by
// make_tiny_models.py). Each planted mistake must move the logits far beyond the tolerance, or
// these tests prove nothing.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <functional>
#include <limits>
#include <memory>
#include <string>

#include <gmock/gmock.h>

#include "baton/models/model.h"

#include "support/models/cached_run.h"
#include "support/models/rewrite.h"

namespace baton::models {
namespace {

constexpr float tolerance = 1e-3f;
constexpr float visible = 0.1f;

struct Golden {
  std::vector<TokenId> tokens;
  std::vector<std::vector<float>> logits;
};

std::string data_path(const std::string& name) {
  return std::string(BATON_SOURCE_DIR) + "/tests/golden/models/data/" + name;
}

Golden read_golden(const std::string& name) {
  std::ifstream file(data_path(name + ".golden"), std::ios::binary);
  const auto read = [&](void* to, std::size_t bytes) {
    file.read(static_cast<char*>(to), static_cast<std::streamsize>(bytes));
  };
  std::int32_t counts[2] = {};
  read(counts, sizeof(counts));
  Golden golden;
  golden.tokens.resize(static_cast<std::size_t>(counts[0]));
  read(golden.tokens.data(), golden.tokens.size() * sizeof(TokenId));
  golden.logits.assign(golden.tokens.size(),
                       std::vector<float>(static_cast<std::size_t>(counts[1])));
  for (auto& row : golden.logits) read(row.data(), row.size() * sizeof(float));
  EXPECT_TRUE(file.good());
  return golden;
}

/// A tiny model with its golden logits, run by `ref` over an f32 cache.
class TinyModel {
 public:
  explicit TinyModel(const std::string& name)
      : golden_(read_golden(name)),
        file_(modelfile::ModelFile::open(data_path(name + ".gguf")).value()),
        kernels_(kernels::make_kernels("ref", pool_).value()) {}

  const modelfile::ModelFile& file() const { return file_; }
  ModelConfig config() const { return config_from(file_).value(); }
  const Golden& golden() const { return golden_; }

  /// Largest difference of any logit, with the file or the configuration changed.
  float deviation(const std::function<void(ModelConfig&)>& change = {}) {
    return deviation_of(file_, change);
  }
  float deviation(const test::Changes& changes) {
    return deviation_of(test::rewrite(file_, changes), {});
  }

  /// The same when the second half of the tokens stands `shift` positions off its place.
  float shifted_deviation(int shift) {
    const auto model = load(file_, config());
    test::CachedRun run(*model, options());
    const std::span<const TokenId> tokens = golden_.tokens;
    const std::size_t half = tokens.size() / 2;
    run.append(0, tokens.first(half));
    run.set_length(0, static_cast<std::int64_t>(half) + shift);
    return largest_difference(run.append(0, tokens.subspan(half)), half);
  }

 private:
  static test::CacheOptions options() {
    return {.dtype = tensor::CacheDtype::f32, .block_units = 1, .positions = 128};
  }

  std::unique_ptr<Model> load(const modelfile::ModelFile& file, const ModelConfig& config) {
    return Model::load(file, config, *kernels_, {}).value();
  }

  float deviation_of(const modelfile::ModelFile& file,
                     const std::function<void(ModelConfig&)>& change) {
    ModelConfig config = config_from(file).value();
    if (change) change(config);
    const auto model = load(file, config);
    test::CachedRun run(*model, options());
    return largest_difference(run.append(0, golden_.tokens), 0);
  }

  float largest_difference(const std::vector<std::vector<float>>& rows, std::size_t first) {
    float largest = 0;
    EXPECT_EQ(rows.size(), golden_.tokens.size() - first);
    for (std::size_t r = 0; r < rows.size(); ++r) {
      const std::vector<float>& wanted = golden_.logits[first + r];
      EXPECT_EQ(rows[r].size(), wanted.size());
      for (std::size_t i = 0; i < wanted.size(); ++i) {
        const float difference = std::abs(rows[r][i] - wanted[i]);
        if (std::isnan(difference)) return std::numeric_limits<float>::infinity();
        largest = std::max(largest, difference);
      }
    }
    return largest;
  }

  Golden golden_;
  modelfile::ModelFile file_;
  kernels::ThreadPool pool_{1};
  std::unique_ptr<kernels::Kernels> kernels_;
};

class TinyModels : public testing::TestWithParam<const char*> {};

TEST_P(TinyModels, give_the_reference_logits_at_every_position) {
  const float deviation = TinyModel(GetParam()).deviation();
  std::printf("largest difference %.2e\n", static_cast<double>(deviation));
  EXPECT_LE(deviation, tolerance);
}

TEST_P(TinyModels, show_a_position_that_is_off_by_one) {
  TinyModel model(GetParam());
  EXPECT_LE(model.shifted_deviation(0), tolerance);
  EXPECT_GT(model.shifted_deviation(1), visible);
  EXPECT_GT(model.shifted_deviation(-1), visible);
}

TEST_P(TinyModels, show_a_wrong_rope_base) {
  TinyModel model(GetParam());
  for (std::size_t rope = 0; rope < model.config().ropes.size(); ++rope) {
    EXPECT_GT(model.deviation([&](ModelConfig& c) { c.ropes[rope].base *= 2; }), visible) << rope;
  }
}

TEST_P(TinyModels, show_the_other_pairing_of_rope) {
  EXPECT_GT(TinyModel(GetParam()).deviation([](ModelConfig& c) {
    for (RopeConfig& rope : c.ropes) rope.interleaved = !rope.interleaved;
  }),
            visible);
}

TEST_P(TinyModels, show_a_wrong_attention_scale) {
  EXPECT_GT(TinyModel(GetParam()).deviation([](ModelConfig& c) { c.attention_scale *= 1.1f; }),
            visible);
}

TEST_P(TinyModels, show_the_other_activation) {
  EXPECT_GT(TinyModel(GetParam()).deviation([](ModelConfig& c) {
    const bool silu = c.activation == kernels::Activation::silu;
    c.activation = silu ? kernels::Activation::gelu_tanh : kernels::Activation::silu;
  }),
            visible);
}

INSTANTIATE_TEST_SUITE_P(OfEveryFamily, TinyModels,
                         testing::Values("llama_plain", "llama_bias", "llama3_scaled",
                                         "mistral_window", "gemma3", "gemma3_wide_heads"),
                         [](const auto& tested) { return std::string(tested.param); });

TEST(TinyModelsWithBias, show_each_dropped_bias) {
  TinyModel model("llama_bias");
  for (const std::string part :
       {"attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"}) {
    test::Changes zeroed;
    zeroed.edit = [&](const std::string& name, std::vector<float>& values) {
      if (name == "blk.1." + part + ".bias") std::ranges::fill(values, 0.0f);
    };
    EXPECT_GT(model.deviation(zeroed), visible) << part;
  }
}

TEST(TinyModelsWithBias, refuse_a_configuration_that_forgets_them) {
  const modelfile::ModelFile file =
      modelfile::ModelFile::open(data_path("llama_bias.gguf")).value();
  ModelConfig config = config_from(file).value();
  config.qkv_bias = false;
  kernels::ThreadPool pool(1);
  const auto kernels = kernels::make_kernels("ref", pool).value();
  const auto model = Model::load(file, config, *kernels, {});
  ASSERT_TRUE(model.has_error());
  EXPECT_THAT(model.error().message(), testing::HasSubstr("'blk.0.attn_q.bias'"));
}

TEST(TinyModelsWithBias, show_a_wrong_epsilon) {
  EXPECT_GT(TinyModel("llama_bias").deviation([](ModelConfig& c) { c.norm_epsilon = 1e-5f; }),
            visible);
}

TEST(TinyModelsWithScaledRope, show_missing_factors) {
  EXPECT_GT(TinyModel("llama3_scaled").deviation([](ModelConfig& c) {
    std::ranges::fill(c.ropes[0].frequency_factors, 1.0f);
  }),
            visible);
}

TEST(TinyModelsWithScaledRope, give_the_same_from_fields_as_from_the_tensor_of_factors) {
  test::Changes as_fields;
  as_fields.dropped = {"rope_freqs.weight"};
  as_fields.add_fields = [](test::GgufWriter& writer) {
    writer.add_string("llama.rope.scaling.type", "llama3");
    writer.add_f32("llama.rope.scaling.factor", 8);
    writer.add_f32("llama.rope.scaling.low_freq_factor", 1);
    writer.add_f32("llama.rope.scaling.high_freq_factor", 4);
    writer.add_u32("llama.rope.scaling.original_context_length", 32);
  };
  TinyModel model("llama3_scaled");
  EXPECT_LE(model.deviation(as_fields), tolerance);
  as_fields.add_fields = [](test::GgufWriter&) {};
  EXPECT_GT(model.deviation(as_fields), visible);
}

TEST(TinyModelsWithScaledRope, show_a_linear_scaling_that_was_dropped) {
  EXPECT_GT(TinyModel("gemma3_wide_heads").deviation([](ModelConfig& c) {
    c.ropes[0].scaling = RopeScaling::none;
  }),
            visible);
}

TEST(TinyModelsWithWindow, show_a_window_that_is_off_by_one) {
  for (const char* name : {"mistral_window", "gemma3", "gemma3_wide_heads"}) {
    TinyModel model(name);
    for (const int shift : {-1, 1}) {
      EXPECT_GT(model.deviation([&](ModelConfig& c) { c.groups[0].window += shift; }), visible)
          << name << " " << shift;
    }
  }
}

TEST(TinyModelsWithWindow, cut_gemma_layers_into_five_local_and_one_global) {
  const ModelConfig config = TinyModel("gemma3").config();
  ASSERT_EQ(config.groups.size(), 2u);
  EXPECT_EQ(config.groups[0].window, 16);
  EXPECT_THAT(config.groups[0].layers, testing::ElementsAre(0, 1, 2, 3, 4, 6));
  EXPECT_EQ(config.groups[1].window, 0);
  EXPECT_THAT(config.groups[1].layers, testing::ElementsAre(5));
  EXPECT_THAT(config.rope_of_layer, testing::ElementsAre(1, 1, 1, 1, 1, 0, 1));
}

TEST(TinyGemmaModels, show_each_forgotten_part) {
  TinyModel model("gemma3");
  EXPECT_GT(model.deviation([](ModelConfig& c) { c.embedding_scale = 1; }), visible);
  for (const std::string part :
       {"attn_q_norm", "attn_k_norm", "post_attention_norm", "post_ffw_norm"}) {
    test::Changes flattened;
    flattened.edit = [&](const std::string& name, std::vector<float>& values) {
      if (name == "blk.1." + part + ".weight") std::ranges::fill(values, 1.0f);
    };
    EXPECT_GT(model.deviation(flattened), visible) << part;
  }
  EXPECT_GT(TinyModel("gemma3_wide_heads").deviation([](ModelConfig& c) { c.logit_softcap = 0; }),
            visible);
}

}  // namespace
}  // namespace baton::models
