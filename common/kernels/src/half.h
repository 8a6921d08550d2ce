// Conversions between float32 and its 16-bit relatives, by bits: they do not depend on the
// floating-point mode. Not for use in files compiled for an instruction set (they have their own).
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

namespace baton::kernels {

/// Exact: denormal halves become normal floats.
inline float f16_to_f32(std::uint16_t half) {
  const std::uint32_t sign = (half & 0x8000U) << 16;
  const std::uint32_t exponent = (half >> 10) & 0x1fU;
  const std::uint32_t mantissa = half & 0x3ffU;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000U | (mantissa << 13));
  if (exponent != 0) {
    return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
  }
  // Units of 2^-24; the product is exact and normal (or zero).
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24F;
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
}

inline float bf16_to_f32(std::uint16_t value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value) << 16);
}

/// Round to nearest even; denormal inputs become zero of their sign; NaNs stay quiet NaNs.
inline std::uint16_t f32_to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  if (magnitude > 0x7f800000U) return static_cast<std::uint16_t>((bits >> 16) | 0x40U);
  if (magnitude < 0x00800000U) return static_cast<std::uint16_t>((bits >> 16) & 0x8000U);
  return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

/// An unaligned little-endian value.
template <typename T>
T load(const void* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

}  // namespace baton::kernels
