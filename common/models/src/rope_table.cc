#include "baton/models/rope_table.h"

#include <numbers>

namespace baton::models {
namespace {

/// x to the power of n by repeated multiplication.
double power(double x, int n) {
  double result = 1;
  for (int i = 0; i < n; ++i) result *= x;
  return result;
}

/// The n-th root of `base` > 1 by bisection down to neighbouring doubles.
double root(double base, int n) {
  double low = 1;
  double high = base;
  while (true) {
    const double middle = low + (high - low) / 2;
    if (middle <= low || middle >= high) return low;
    (power(middle, n) > base ? high : low) = middle;
  }
}

/// Llama 3: long waves are stretched by the factor, short ones kept, those between blended.
double llama3_scaled(const RopeConfig& config, double frequency) {
  const auto original = static_cast<double>(config.original_context);
  const double wave_length = 2 * std::numbers::pi / frequency;
  const double low = config.low_freq_factor;
  const double high = config.high_freq_factor;
  if (wave_length > original / low) return frequency / config.factor;
  if (wave_length < original / high) return frequency;
  const double smooth = (original / wave_length - low) / (high - low);
  return (1 - smooth) * frequency / config.factor + smooth * frequency;
}

/// Taylor polynomials are exact to a double's precision on [-pi/4, pi/4]: the first left-out terms
/// are below 2^-58.
double sine_near_zero(double x) {
  const double y = x * x;
  double sum = 0;
  for (const double divisor : {18.0 * 19, 16.0 * 17, 14.0 * 15, 12.0 * 13, 10.0 * 11, 8.0 * 9,
                               6.0 * 7, 4.0 * 5, 2.0 * 3}) {
    sum = -(y / divisor) * (1 + sum);
  }
  return x + x * sum;
}

double cosine_near_zero(double x) {
  const double y = x * x;
  double sum = 0;
  for (const double divisor :
       {17.0 * 18, 15.0 * 16, 13.0 * 14, 11.0 * 12, 9.0 * 10, 7.0 * 8, 5.0 * 6, 3.0 * 4}) {
    sum = -(y / divisor) * (1 + sum);
  }
  return 1 - y / 2 * (1 + sum);
}

}  // namespace

SineCosine sine_cosine(double angle) {
  // pi/2 in three parts of 33 bits: multiples below 2^20 of the first two are exact.
  constexpr double half_pi_1 = 0x1.921fb544p+0;
  constexpr double half_pi_2 = 0x1.0b4611a6p-34;
  constexpr double half_pi_3 = 0x1.3198a2e037073p-69;
  const auto quadrant = static_cast<std::int64_t>(angle * (2 / std::numbers::pi) + 0.5);
  const auto turns = static_cast<double>(quadrant);
  const double x = ((angle - turns * half_pi_1) - turns * half_pi_2) - turns * half_pi_3;
  const double sine = sine_near_zero(x);
  const double cosine = cosine_near_zero(x);
  switch (quadrant % 4) {
    case 0:
      return {sine, cosine};
    case 1:
      return {cosine, -sine};
    case 2:
      return {-sine, -cosine};
    default:
      return {-cosine, sine};
  }
}

std::vector<double> rope_frequencies(const RopeConfig& config) {
  const int pairs = config.rotary_dim / 2;
  const double step = root(config.base, pairs);
  std::vector<double> frequencies;
  double divisor = 1;
  for (int pair = 0; pair < pairs; ++pair) {
    double frequency = 1 / divisor;
    if (config.scaling == RopeScaling::linear) frequency /= config.factor;
    if (config.scaling == RopeScaling::llama3) frequency = llama3_scaled(config, frequency);
    if (!config.frequency_factors.empty()) {
      frequency /= config.frequency_factors[static_cast<std::size_t>(pair)];
    }
    frequencies.push_back(frequency);
    divisor *= step;
  }
  return frequencies;
}

kernels::RopeTable make_rope_table(const RopeConfig& config, std::int64_t positions) {
  const std::vector<double> frequencies = rope_frequencies(config);
  kernels::RopeTable table;
  table.rotary_dim = config.rotary_dim;
  table.positions = positions;
  table.interleaved = config.interleaved;
  const std::size_t values = static_cast<std::size_t>(positions) * frequencies.size();
  table.cosines.reserve(values);
  table.sines.reserve(values);
  for (std::int64_t position = 0; position < positions; ++position) {
    for (const double frequency : frequencies) {
      const SineCosine turned = sine_cosine(static_cast<double>(position) * frequency);
      table.cosines.push_back(static_cast<float>(turned.cosine));
      table.sines.push_back(static_cast<float>(turned.sine));
    }
  }
  return table;
}

std::size_t rope_table_bytes(const RopeConfig& config, std::int64_t positions) {
  return static_cast<std::size_t>(positions) * static_cast<std::size_t>(config.rotary_dim) *
         sizeof(float);
}

}  // namespace baton::models
