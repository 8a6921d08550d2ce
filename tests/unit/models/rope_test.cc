#include <cmath>
#include <numbers>

#include <gmock/gmock.h>

#include "baton/models/rope_table.h"

namespace baton::models {
namespace {

TEST(SineCosine, are_within_two_units_in_the_last_place_of_the_c_library) {
  double largest = 0;
  for (int i = 0; i < 200'000; ++i) {
    // Irregular steps from tiny angles to the end of the range.
    const double angle = std::exp(-20 + i * (35.0 / 200'000));
    const SineCosine ours = sine_cosine(angle);
    largest = std::max(largest, std::abs(ours.sine - std::sin(angle)));
    largest = std::max(largest, std::abs(ours.cosine - std::cos(angle)));
  }
  EXPECT_LE(largest, 0x1p-51);
}

TEST(SineCosine, are_exact_at_zero) {
  EXPECT_EQ(sine_cosine(0).sine, 0);
  EXPECT_EQ(sine_cosine(0).cosine, 1);
}

TEST(RopeFrequencies, fall_by_equal_factors_from_one_to_one_over_the_base) {
  const RopeConfig config{.base = 100'000, .rotary_dim = 64};
  const auto frequencies = rope_frequencies(config);
  ASSERT_EQ(frequencies.size(), 32u);
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    EXPECT_NEAR(frequencies[i] * std::pow(100'000.0, static_cast<double>(i) / 32), 1, 1e-13);
  }
}

TEST(RopeFrequencies, are_divided_by_a_linear_factor) {
  const RopeConfig plain{.base = 10'000, .rotary_dim = 16};
  RopeConfig stretched = plain;
  stretched.scaling = RopeScaling::linear;
  stretched.factor = 8;
  const auto a = rope_frequencies(plain);
  const auto b = rope_frequencies(stretched);
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_DOUBLE_EQ(a[i], 8 * b[i]);
}

TEST(RopeFrequencies, of_llama3_keep_short_waves_stretch_long_ones_and_blend_between) {
  RopeConfig plain{.base = 500'000, .rotary_dim = 128};
  RopeConfig scaled = plain;
  scaled.scaling = RopeScaling::llama3;
  scaled.factor = 32;
  const auto before = rope_frequencies(plain);
  const auto after = rope_frequencies(scaled);
  for (std::size_t i = 0; i < before.size(); ++i) {
    const double wave = 2 * std::numbers::pi / before[i];
    const double ratio = before[i] / after[i];
    if (wave < 8192.0 / 4) {
      EXPECT_DOUBLE_EQ(ratio, 1);
    } else if (wave > 8192.0) {
      EXPECT_DOUBLE_EQ(ratio, 32);
    } else {
      EXPECT_GT(ratio, 1);
      EXPECT_LT(ratio, 32);
    }
  }
}

TEST(RopeTable, holds_every_position_of_the_context) {
  const RopeConfig config{.base = 10'000, .rotary_dim = 8, .interleaved = true};
  const kernels::RopeTable table = make_rope_table(config, 100);
  EXPECT_EQ(table.positions, 100);
  EXPECT_TRUE(table.interleaved);
  ASSERT_EQ(table.cosines.size(), 400u);
  EXPECT_EQ(rope_table_bytes(config, 100), (table.cosines.size() + table.sines.size()) * 4);
  const double frequency = std::pow(10'000.0, -2.0 / 8);
  EXPECT_FLOAT_EQ(table.cosines[99 * 4 + 1], static_cast<float>(std::cos(99 * frequency)));
  EXPECT_FLOAT_EQ(table.sines[99 * 4 + 1], static_cast<float>(std::sin(99 * frequency)));
}

}  // namespace
}  // namespace baton::models
