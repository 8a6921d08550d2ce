#include "baton/models/config.h"

#include <cmath>
#include <functional>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "support/models/random_model.h"
#include "support/models/rewrite.h"

namespace baton::models {
namespace {

using test::GgufWriter;

/// The tiny model's file with fields taken out and put in.
Result<ModelConfig> config_with(const test::RandomModel& spec, const std::set<std::string>& dropped,
                                const std::function<void(GgufWriter&)>& added) {
  test::Changes changes;
  changes.dropped = dropped;
  changes.add_fields = added;
  return config_from(test::rewrite(test::make_random_model(spec), changes));
}

/// One llama field replaced by an integer.
Result<ModelConfig> config_with(const std::string& field, std::uint32_t value) {
  return config_with({}, {field}, [&](GgufWriter& w) { w.add_u32(field, value); });
}
Result<ModelConfig> config_with_real(const std::string& field, float value) {
  return config_with({}, {field}, [&](GgufWriter& w) { w.add_f32(field, value); });
}

void expect_bad(const Result<ModelConfig>& config, const std::string& field) {
  ASSERT_TRUE(config.has_error()) << field;
  EXPECT_EQ(config.error().reason(), Reason::bad_model_file) << field;
  EXPECT_THAT(config.error().message(), testing::HasSubstr("'" + field + "'"));
  EXPECT_THAT(config.error().message(), testing::Not(testing::HasSubstr("\n")));
}

TEST(ModelConfig, of_a_llama_file_follows_its_fields) {
  const auto file = test::make_random_model({.bias = true, .tied_output = true});
  const ModelConfig config = config_from(file).value();
  EXPECT_EQ(config.family, "llama");
  EXPECT_EQ(config.layers, 2);
  EXPECT_EQ(config.width, 64);
  EXPECT_EQ(config.heads, 4);
  EXPECT_EQ(config.kv_heads, 2);
  EXPECT_EQ(config.head_dim, 16);
  EXPECT_EQ(config.vocabulary, 101);
  EXPECT_EQ(config.attention_scale, 0.25f);
  EXPECT_EQ(config.embedding_scale, 1);
  EXPECT_TRUE(config.qkv_bias);
  EXPECT_TRUE(config.tied_output);
  ASSERT_EQ(config.ropes.size(), 1u);
  EXPECT_TRUE(config.ropes[0].interleaved);
  EXPECT_EQ(config.ropes[0].base, 10'000);
  ASSERT_EQ(config.groups.size(), 1u);
  EXPECT_EQ(config.groups[0].window, 0);
}

TEST(ModelConfig, of_a_gemma_file_has_two_groups_and_two_ropes) {
  const ModelConfig config =
      config_from(test::make_random_model({.family = "gemma3", .layers = 3, .window = 20})).value();
  EXPECT_EQ(config.embedding_scale, 8);
  EXPECT_TRUE(config.qk_norm);
  EXPECT_TRUE(config.post_norms);
  EXPECT_EQ(config.activation, kernels::Activation::gelu_tanh);
  ASSERT_EQ(config.ropes.size(), 2u);
  EXPECT_EQ(config.ropes[0].base, 1'000'000);
  EXPECT_EQ(config.ropes[1].base, 10'000);
  EXPECT_THAT(config.rope_of_layer, testing::ElementsAre(1, 0, 1));
  EXPECT_THAT(config.group_of_layer, testing::ElementsAre(0, 1, 0));
  EXPECT_THAT(config.index_in_group, testing::ElementsAre(0, 0, 1));
}

TEST(ModelConfig, takes_a_window_pattern_as_one_flag_per_layer) {
  const test::RandomModel spec{.family = "gemma3", .layers = 3, .window = 20};
  const std::string field = "gemma3.attention.sliding_window_pattern";
  const auto config = config_with(spec, {field}, [&](GgufWriter& w) {
    w.add_bools(field, {false, true, true});
  });
  EXPECT_THAT(config.value().rope_of_layer, testing::ElementsAre(0, 1, 1));
  expect_bad(config_with(spec, {field}, [&](GgufWriter& w) { w.add_bools(field, {true}); }), field);
}

TEST(ModelConfig, keeps_one_rope_per_kind_of_layer_when_the_window_covers_the_context) {
  const ModelConfig config =
      config_from(test::make_random_model({.family = "gemma3", .window = 4096})).value();
  ASSERT_EQ(config.groups.size(), 1u);
  EXPECT_EQ(config.groups[0].window, 0);
  EXPECT_THAT(config.rope_of_layer, testing::ElementsAre(1, 0));
}

TEST(ModelConfig, R14_R19_refuses_every_integer_out_of_range_by_name) {
  for (const char* field :
       {"llama.block_count", "llama.context_length", "llama.embedding_length",
        "llama.feed_forward_length", "llama.attention.head_count", "llama.attention.head_count_kv",
        "llama.attention.key_length", "llama.rope.dimension_count"}) {
    expect_bad(config_with(field, 0), field);
    expect_bad(config_with(field, std::numeric_limits<std::uint32_t>::max()), field);
    expect_bad(config_with({}, {field}, [&](GgufWriter& w) { w.add_i32(field, -1); }), field);
    expect_bad(config_with({}, {field}, [&](GgufWriter& w) { w.add_string(field, "64"); }), field);
  }
}

TEST(ModelConfig, R14_R19_refuses_every_real_number_out_of_range_by_name) {
  for (const char* field : {"llama.attention.layer_norm_rms_epsilon", "llama.rope.freq_base",
                            "llama.attention.scale"}) {
    for (const float value : {0.0f, -1.0f, std::numeric_limits<float>::infinity(),
                              std::numeric_limits<float>::quiet_NaN()}) {
      expect_bad(config_with_real(field, value), field);
    }
  }
}

TEST(ModelConfig, refuses_a_missing_field_by_name) {
  for (const char* field : {"llama.block_count", "llama.context_length", "llama.embedding_length",
                            "llama.feed_forward_length", "llama.attention.head_count",
                            "llama.attention.layer_norm_rms_epsilon", "general.architecture"}) {
    expect_bad(config_with({}, {field}, {}), field);
  }
  expect_bad(
      config_with({.family = "gemma3", .window = 20}, {"gemma3.attention.sliding_window"}, {}),
      "gemma3.attention.sliding_window");
}

TEST(ModelConfig, refuses_heads_that_do_not_fit_together) {
  expect_bad(config_with("llama.attention.head_count_kv", 3), "llama.attention.head_count_kv");
  expect_bad(config_with("llama.attention.head_count_kv", 8), "llama.attention.head_count_kv");
  expect_bad(config_with("llama.attention.key_length", 15), "llama.attention.key_length");
  expect_bad(config_with("llama.attention.value_length", 32), "llama.attention.value_length");
  expect_bad(config_with("llama.rope.dimension_count", 32), "llama.rope.dimension_count");
  expect_bad(config_with("llama.rope.dimension_count", 7), "llama.rope.dimension_count");
}

TEST(ModelConfig, refuses_a_computation_that_it_does_not_know) {
  const auto with_text = [](const std::string& field, const std::string& value) {
    return config_with({}, {field}, [&](GgufWriter& w) { w.add_string(field, value); });
  };
  expect_bad(with_text("general.architecture", "mamba"), "general.architecture");
  expect_bad(with_text("llama.rope.scaling.type", "yarn"), "llama.rope.scaling.type");
  expect_bad(with_text("llama.rope.scaling.type", "linear"), "llama.rope.scaling.factor");
  expect_bad(config_with("llama.expert_count", 8), "llama.expert_count");
  expect_bad(config_with_real("llama.logit_scale", 2), "llama.logit_scale");
  expect_bad(
      config_with({}, {}, [](GgufWriter& w) { w.add_bool("llama.attention.causal", false); }),
      "llama.attention.causal");
  const std::string ffn = "llama.feed_forward_length";
  expect_bad(config_with({}, {ffn}, [&](GgufWriter& w) { w.add_i32s(ffn, {96, 64}); }), ffn);
}

TEST(ModelConfig, refuses_a_vocabulary_that_differs_between_places) {
  expect_bad(config_with("llama.vocab_size", 100), "llama.vocab_size");
  expect_bad(config_with({}, {},
                         [](GgufWriter& w) {
                           w.add_strings("tokenizer.ggml.tokens",
                                         std::vector<std::string>(102, "a"));
                         }),
             "tokenizer.ggml.tokens");
}

TEST(FingerprintFields, differ_whenever_a_hyper_parameter_differs) {
  const ModelConfig base =
      config_from(test::make_random_model({.family = "gemma3", .layers = 3, .window = 20})).value();
  const std::vector<std::function<void(ModelConfig&)>> changes = {
      [](auto& c) { c.family = "llama"; },
      [](auto& c) { ++c.layers; },
      [](auto& c) { ++c.width; },
      [](auto& c) { ++c.heads; },
      [](auto& c) { ++c.kv_heads; },
      [](auto& c) { ++c.head_dim; },
      [](auto& c) { ++c.ffn_width; },
      [](auto& c) { ++c.vocabulary; },
      [](auto& c) { ++c.context_length; },
      [](auto& c) { c.norm_epsilon = std::nextafter(c.norm_epsilon, 1.0f); },
      [](auto& c) { c.attention_scale = std::nextafter(c.attention_scale, 1.0f); },
      [](auto& c) { c.embedding_scale = std::nextafter(c.embedding_scale, 1.0f); },
      [](auto& c) { c.attention_softcap = 50; },
      [](auto& c) { c.logit_softcap = 30; },
      [](auto& c) { c.activation = kernels::Activation::silu; },
      [](auto& c) { c.qk_norm = false; },
      [](auto& c) { c.post_norms = false; },
      [](auto& c) { c.qkv_bias = true; },
      [](auto& c) { c.attention_output_bias = true; },
      [](auto& c) { c.ffn_bias = true; },
      [](auto& c) { c.tied_output = !c.tied_output; },
      [](auto& c) { ++c.groups[0].window; },
      [](auto& c) { c.groups[0].layers.pop_back(); },
      [](auto& c) { c.ropes[1].base = std::nextafter(c.ropes[1].base, 1.0f); },
      [](auto& c) { c.ropes[0].rotary_dim -= 2; },
      [](auto& c) { c.ropes[0].interleaved = true; },
      [](auto& c) { c.ropes[0].scaling = RopeScaling::linear; },
      [](auto& c) { c.ropes[0].factor = 2; },
      [](auto& c) { c.ropes[0].low_freq_factor = 2; },
      [](auto& c) { c.ropes[0].high_freq_factor = 2; },
      [](auto& c) { c.ropes[0].original_context = 2; },
      [](auto& c) { c.ropes[0].frequency_factors = {1.5f}; },
      [](auto& c) { c.rope_of_layer[0] = 0; },
  };
  const auto fields = fingerprint_fields(base);
  for (std::size_t i = 0; i < changes.size(); ++i) {
    ModelConfig changed = base;
    changes[i](changed);
    EXPECT_NE(fingerprint_fields(changed), fields) << "change " << i;
  }
}

TEST(FingerprintFields, have_unique_names_and_leave_out_the_name_for_people) {
  ModelConfig config = config_from(test::make_random_model({})).value();
  const auto fields = fingerprint_fields(config);
  std::set<std::string> names;
  for (const FingerprintField& field : fields) names.insert(field.name);
  EXPECT_EQ(names.size(), fields.size());
  config.name = "another";
  EXPECT_EQ(fingerprint_fields(config), fields);
}

}  // namespace
}  // namespace baton::models
