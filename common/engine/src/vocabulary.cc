#include "baton/engine/vocabulary.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace baton::engine {
namespace {

constexpr std::size_t lanes = 16;

// e^x = 2^n * e^r with n the integer nearest to x / ln 2 and |r| <= ln 2 / 2; e^r by its series up
// to r^7, whose remainder is below 2^-27. ln 2 is subtracted in two parts, the first exact in n.
float exp_of(float x) {
  constexpr float least = -87;
  constexpr float log2_e = 1.44269504f;
  constexpr float ln2_high = 0.693359375f;
  constexpr float ln2_low = -2.12194440e-4f;
  constexpr float round_to_integer = 12582912;  // 1.5 * 2^23: its unit in the last place is 1
  // Selecting by a mask, not by a conditional, lets the compiler compute several at a time.
  const std::int32_t keep = -static_cast<std::int32_t>(x > least);
  const float clamped = std::bit_cast<float>((std::bit_cast<std::int32_t>(x) & keep) |
                                             (std::bit_cast<std::int32_t>(least) & ~keep));
  const float shifted = clamped * log2_e + round_to_integer;
  const float n = shifted - round_to_integer;
  const float r = clamped - n * ln2_high - n * ln2_low;
  float series = 1.0f / 5040;
  series = series * r + 1.0f / 720;
  series = series * r + 1.0f / 120;
  series = series * r + 1.0f / 24;
  series = series * r + 1.0f / 6;
  series = series * r + 0.5f;
  series = series * r + 1;
  series = series * r + 1;
  const std::int32_t exponent =
      std::bit_cast<std::int32_t>(shifted) - std::bit_cast<std::int32_t>(round_to_integer);
  const float scale = std::bit_cast<float>((exponent + 127) << 23);
  return std::bit_cast<float>(std::bit_cast<std::int32_t>(series * scale) & keep);
}

}  // namespace

RowScan scan_row(std::span<const float> logits) {
  std::array<float, lanes> greatest;
  greatest.fill(-std::numeric_limits<float>::infinity());
  std::array<std::int32_t, lanes> not_a_number{};
  const std::size_t whole = logits.size() / lanes * lanes;
  for (std::size_t i = 0; i < whole; i += lanes) {
    for (std::size_t j = 0; j < lanes; ++j) {
      const float x = logits[i + j];
      greatest[j] = x > greatest[j] ? x : greatest[j];
      not_a_number[j] |= x != x ? 1 : 0;
    }
  }
  for (std::size_t i = whole; i < logits.size(); ++i) {
    greatest[0] = std::max(greatest[0], logits[i]);
    not_a_number[0] |= std::isnan(logits[i]) ? 1 : 0;
  }
  RowScan scan;
  scan.max = *std::max_element(greatest.begin(), greatest.end());
  const bool any_nan =
      std::any_of(not_a_number.begin(), not_a_number.end(), [](auto seen) { return seen != 0; });
  scan.finite = !any_nan && std::isfinite(scan.max);
  if (scan.finite) {
    scan.argmax =
        static_cast<TokenId>(std::find(logits.begin(), logits.end(), scan.max) - logits.begin());
  }
  return scan;
}

float exp_nonpositive(float x) { return exp_of(x); }

void weigh(std::span<const float> logits, float max, float temperature, std::span<float> out) {
  const float* in = logits.data();
  float* to = out.data();
  const std::size_t count = logits.size();
  for (std::size_t i = 0; i < count; ++i) to[i] = exp_of((in[i] - max) / temperature);
}

double sum_chunk(std::span<const float> weights) {
  std::array<double, lanes> sums{};
  const std::size_t whole = weights.size() / lanes * lanes;
  for (std::size_t i = 0; i < whole; i += lanes) {
    for (std::size_t j = 0; j < lanes; ++j) sums[j] += static_cast<double>(weights[i + j]);
  }
  for (std::size_t i = whole; i < weights.size(); ++i) {
    sums[i - whole] += static_cast<double>(weights[i]);
  }
  for (std::size_t half = lanes / 2; half > 0; half /= 2) {
    for (std::size_t j = 0; j < half; ++j) sums[j] += sums[j + half];
  }
  return sums[0];
}

double sum_weights(std::span<const float> weights) {
  double total = 0;
  for (std::size_t i = 0; i < weights.size(); i += vocabulary_chunk) {
    total += sum_chunk(weights.subspan(i, std::min(vocabulary_chunk, weights.size() - i)));
  }
  return total;
}

// value = 2^e * m with m in [sqrt(1/2), sqrt(2)); log m = 2 atanh(s), s = (m - 1) / (m + 1), by the
// series of atanh up to s^21 (|s| < 0.172, remainder below 2^-58).
double natural_log(double value) {
  constexpr double ln2 = 0.693147180559945309417;
  constexpr double sqrt2 = 1.41421356237309504880;
  constexpr std::uint64_t mantissa_bits = 52;
  const auto bits = std::bit_cast<std::uint64_t>(value);
  auto exponent = static_cast<std::int64_t>(bits >> mantissa_bits) - 1023;
  double m = std::bit_cast<double>((bits & ((std::uint64_t{1} << mantissa_bits) - 1)) |
                                   (std::uint64_t{1023} << mantissa_bits));
  if (m >= sqrt2) {
    m *= 0.5;
    ++exponent;
  }
  const double s = (m - 1) / (m + 1);
  const double square = s * s;
  double series = 0;
  for (int odd = 21; odd >= 1; odd -= 2) series = series * square + 1.0 / odd;
  return static_cast<double>(exponent) * ln2 + 2 * s * series;
}

}  // namespace baton::engine
