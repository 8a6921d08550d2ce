// Scalar building blocks of the class: what one lane does. Every function says its order.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "half.h"
#include "lanes16/constants.h"

namespace baton::kernels::spec {

/// One rounding.
inline float fma(float a, float b, float c) { return std::fma(a, b, c); }

inline float exp(float x) {
  const float shifted = fma(x, exp_log2e, exp_magic);
  const float n = shifted - exp_magic;
  float r = fma(n, exp_minus_ln2_high, x);
  r = fma(n, exp_minus_ln2_low, r);
  float p = fma(exp_c4, r, exp_c3);
  p = fma(p, r, exp_c2);
  p = fma(p, r, exp_c1);
  p = fma(p, r, exp_c0);
  p = fma(p, r * r, r);
  if (x < exp_lowest) return 0;
  if (x > exp_highest) return std::numeric_limits<float>::infinity();
  const std::uint32_t magic_bits = std::bit_cast<std::uint32_t>(exp_magic);
  const std::uint32_t power = std::bit_cast<std::uint32_t>(shifted) - magic_bits + 127;
  const auto scale = std::bit_cast<float>(power << 23);
  return fma(p, scale, scale);
}

/// 2^x for x <= 0 (or a rounding above it).
inline float exp2(float x) {
  if (x < exp2_lowest) x = exp2_lowest;
  const float shifted = x + exp2_magic;
  const float r = x - (shifted - exp2_magic);
  float p = fma(exp2_c5, r, exp2_c4);
  p = fma(p, r, exp2_c3);
  p = fma(p, r, exp2_c2);
  p = fma(p, r, exp2_c1);
  const auto scale = std::bit_cast<float>(std::bit_cast<std::uint32_t>(shifted) << 23);
  return fma(p * r, scale, scale);
}

inline float tanh(float x) {
  const float a = std::fabs(x);
  if (a < tanh_limit) {
    const float square = a * a;
    float p = fma(tanh_c4, square, tanh_c3);
    p = fma(p, square, tanh_c2);
    p = fma(p, square, tanh_c1);
    p = fma(p, square, tanh_c0);
    return std::copysign(fma(p, square * a, a), x);
  }
  return std::copysign(1.0F - 2.0F / (exp(a + a) + 1.0F), x);
}

inline float silu(float x) { return x / (1.0F + exp(-x)); }

inline float gelu_tanh(float x) {
  const float inner = gelu_root * fma(gelu_cube * (x * x), x, x);
  const float half = 0.5F * x;
  return fma(half, tanh(inner), half);
}

inline float soft_cap(float x, float softcap) { return softcap * tanh(x / softcap); }

/// The tree over 16 lanes: halves are added until one is left.
inline float reduce(const float (&lane)[lanes]) {
  float sum[lanes];
  for (int i = 0; i < lanes; ++i) sum[i] = lane[i];
  for (int width = lanes / 2; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) sum[i] = sum[i] + sum[i + width];
  }
  return sum[0];
}

/// The step of a dot product over one 32-bit word of each side. For bf16 the odd (upper) product
/// enters first, as vdpbf16ps does with flushed denormals.
inline float step_bf16(float sum, std::uint32_t a, std::uint32_t b) {
  const auto odd = [](std::uint32_t w) { return std::bit_cast<float>(w & 0xffff0000U); };
  const auto even = [](std::uint32_t w) { return std::bit_cast<float>(w << 16); };
  return fma(even(a), even(b), fma(odd(a), odd(b), sum));
}

inline float step_f32(float sum, std::uint32_t a, std::uint32_t b) {
  return fma(std::bit_cast<float>(a), std::bit_cast<float>(b), sum);
}

}  // namespace baton::kernels::spec
