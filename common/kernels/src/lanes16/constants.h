// Numbers that define the classes lanes16 and tiles16. Changing one is a new revision
// (ARCHITECTURE.md).
#pragma once

#include <string_view>

namespace baton::kernels {

/// Names and revisions of the classes. They differ in the products with bf16 weights alone.
inline constexpr std::string_view lanes16_class = "lanes16-4";
inline constexpr std::string_view tiles16_class = "tiles16-1";

inline constexpr int lanes = 16;
inline constexpr int group_inputs = 32;  ///< inputs that share one activation scale
/// Inputs of bf16 weights that the class tiles16 sums by themselves.
inline constexpr int bf16_tile_inputs = 32;
inline constexpr int tile_keys = 64;
inline constexpr int segment_keys = 1024;

// A group whose largest magnitude is below this is all zeros: 127 / amax stays finite above it.
inline constexpr float smallest_amax = 0x1p-100F;

// exp: n = rne(x log2 e) by adding and taking away 1.5 * 2^23, r = x - n ln 2 in two parts, then
// e^r = 1 + r + r^2 P(r). P is a minimax fit on |r| <= ln 2 / 2 (relative error below 2^-26).
inline constexpr float exp_log2e = 0x1.715476p+0F;
inline constexpr float exp_magic = 0x1.8p+23F;
inline constexpr float exp_minus_ln2_high = -0x1.62e43p-1F;
inline constexpr float exp_minus_ln2_low = 0x1.05c61p-29F;
inline constexpr float exp_c0 = 0x1.fffffcp-2F;
inline constexpr float exp_c1 = 0x1.55549p-3F;
inline constexpr float exp_c2 = 0x1.5558f4p-5F;
inline constexpr float exp_c3 = 0x1.123a6cp-7F;
inline constexpr float exp_c4 = 0x1.6a234ep-10F;
// Below: +0 (the result would be denormal). Above: +infinity (n would be 128).
inline constexpr float exp_lowest = -0x1.5d58ap+6F;   // -87.3366
inline constexpr float exp_highest = 0x1.618148p+6F;  // 88.3762

// 2^x for x <= 0, attention's: n = rne(x) by adding and taking away 1.5 * 2^23 + 127, whose last
// bits are then the exponent's, r = x - n, 2^r = 1 + r P(r). P is a minimax fit on |r| <= 1/2
// (relative error below 2^-23.3). At exp2_lowest the exponent's bits are 0, and so is the result.
inline constexpr float exp2_magic = 0x1.8p+23F + 127.0F;
inline constexpr float exp2_lowest = -127.0F;
inline constexpr float exp2_c1 = 0x1.62e42ap-1F;
inline constexpr float exp2_c2 = 0x1.ebf9c2p-3F;
inline constexpr float exp2_c3 = 0x1.c6b6d8p-5F;
inline constexpr float exp2_c4 = 0x1.3ce8aep-7F;
inline constexpr float exp2_c5 = 0x1.5bda56p-10F;

// tanh: x + x^3 P(x^2) below the limit, 1 - 2 / (e^2x + 1) from it on.
inline constexpr float tanh_limit = 0.625F;
inline constexpr float tanh_c0 = -0x1.555534p-2F;
inline constexpr float tanh_c1 = 0x1.110768p-3F;
inline constexpr float tanh_c2 = -0x1.b84448p-5F;
inline constexpr float tanh_c3 = 0x1.5256cep-6F;
inline constexpr float tanh_c4 = -0x1.76abf6p-8F;

inline constexpr float gelu_root = 0x1.988454p-1F;  ///< sqrt(2 / pi)
inline constexpr float gelu_cube = 0x1.6e4e26p-5F;  ///< 0.044715

}  // namespace baton::kernels
