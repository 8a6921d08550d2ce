#include "baton/engine/vocabulary.h"

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace baton::engine {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();

TEST(Vocabulary, ExpIsCloseToTheTrueValueAndZeroFarDown) {
  for (float x = 0; x > -87; x -= 0.0137f) {
    const double expected = std::exp(static_cast<double>(x));
    EXPECT_NEAR(static_cast<double>(exp_nonpositive(x)) / expected, 1, 0x1p-22) << x;
  }
  EXPECT_EQ(exp_nonpositive(0), 1.0f);
  EXPECT_EQ(exp_nonpositive(-87.5f), 0.0f);
  EXPECT_EQ(exp_nonpositive(-infinity), 0.0f);
  EXPECT_EQ(exp_nonpositive(not_a_number), 0.0f);
}

TEST(Vocabulary, WeighingARowEqualsWeighingEachIdAlone) {
  std::mt19937_64 random(5);
  std::normal_distribution<float> normal(0, 8);
  std::vector<float> logits(1003);
  for (float& x : logits) x = normal(random);
  logits[17] = -infinity;
  const float max = scan_row(logits).max;
  std::vector<float> weights(logits.size());
  weigh(logits, max, 0.7f, weights);
  for (std::size_t i = 0; i < logits.size(); ++i) {
    EXPECT_EQ(weights[i], exp_nonpositive((logits[i] - max) / 0.7f));
  }
  EXPECT_EQ(weights[17], 0.0f);
}

TEST(Vocabulary, LogIsCloseToTheTrueValue) {
  for (double x = 0.01; x < 1e7; x *= 1.037) {
    EXPECT_NEAR(natural_log(x), std::log(x), 1e-15 * std::max(1.0, std::abs(std::log(x)))) << x;
  }
  EXPECT_EQ(natural_log(1), 0);
}

TEST(Vocabulary, SumsAreOfEveryWeightWhateverTheSize) {
  for (const std::size_t size : {1u, 15u, 16u, 17u, 1023u, 1024u, 1025u, 3000u}) {
    const std::vector<float> ones(size, 1.0f);
    EXPECT_EQ(sum_weights(ones), static_cast<double>(size));
  }
}

TEST(Vocabulary, TheScanFindsTheLowestIdOfTheGreatestWhereverItStands) {
  for (std::size_t size : {1u, 16u, 33u, 100u}) {
    for (std::size_t at = 0; at < size; ++at) {
      std::vector<float> logits(size, -3.0f);
      logits[at] = 2;
      logits.back() = 2;
      EXPECT_EQ(scan_row(logits).argmax, static_cast<TokenId>(at));
      EXPECT_TRUE(scan_row(logits).finite);
      logits[at] = not_a_number;
      EXPECT_FALSE(scan_row(logits).finite);
      logits[at] = infinity;
      EXPECT_FALSE(scan_row(logits).finite);
    }
    EXPECT_FALSE(scan_row(std::vector<float>(size, -infinity)).finite);
  }
}

}  // namespace
}  // namespace baton::engine
