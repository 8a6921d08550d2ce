// GGUF's block formats, value by value: dequantise() is their definition in this project. Every
// product of a half-precision scale is a normal float or zero, so the result does not depend on
// the thread's denormal mode.
#include "baton/base/check.h"
#include "baton/kernels/kernels.h"

#include "half.h"
#include "k_scales.h"

namespace baton::kernels {
namespace {

using tensor::DType;
using Byte = std::uint8_t;

float half_at(const Byte* p) { return f16_to_f32(load<std::uint16_t>(p)); }

void block_q4_0(const Byte* b, float* out) {
  const float d = half_at(b);
  for (int i = 0; i < 16; ++i) {
    out[i] = d * static_cast<float>((b[2 + i] & 15) - 8);
    out[i + 16] = d * static_cast<float>((b[2 + i] >> 4) - 8);
  }
}

void block_q4_1(const Byte* b, float* out) {
  const float d = half_at(b);
  const float m = half_at(b + 2);
  for (int i = 0; i < 16; ++i) {
    out[i] = d * static_cast<float>(b[4 + i] & 15) + m;
    out[i + 16] = d * static_cast<float>(b[4 + i] >> 4) + m;
  }
}

/// The fifth bit of value i, in its place.
int fifth_bit(std::uint32_t high, int i) { return static_cast<int>((high >> i) & 1U) << 4; }

void block_q5_0(const Byte* b, float* out) {
  const float d = half_at(b);
  const auto high = load<std::uint32_t>(b + 2);
  for (int i = 0; i < 16; ++i) {
    out[i] = d * static_cast<float>(((b[6 + i] & 15) | fifth_bit(high, i)) - 16);
    out[i + 16] = d * static_cast<float>(((b[6 + i] >> 4) | fifth_bit(high, i + 16)) - 16);
  }
}

void block_q5_1(const Byte* b, float* out) {
  const float d = half_at(b);
  const float m = half_at(b + 2);
  const auto high = load<std::uint32_t>(b + 4);
  for (int i = 0; i < 16; ++i) {
    out[i] = d * static_cast<float>((b[8 + i] & 15) | fifth_bit(high, i)) + m;
    out[i + 16] = d * static_cast<float>((b[8 + i] >> 4) | fifth_bit(high, i + 16)) + m;
  }
}

void block_q8_0(const Byte* b, float* out) {
  const float d = half_at(b);
  for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(static_cast<std::int8_t>(b[2 + i]));
}

/// Q4_K and Q5_K: eight groups of 32; `high` is null for Q4_K.
void block_k45(const Byte* b, const Byte* high, const Byte* quants, float* out) {
  const float d = half_at(b);
  const float dmin = half_at(b + 2);
  for (int group = 0; group < 8; ++group) {
    const ScaleMin sm = scale_min(b + 4, group);
    const float scale = d * static_cast<float>(sm.scale);
    const float minimum = dmin * static_cast<float>(sm.min);
    const Byte* q = quants + group / 2 * 32;
    for (int i = 0; i < 32; ++i) {
      const int low = group % 2 == 0 ? q[i] & 15 : q[i] >> 4;
      const int fifth = high == nullptr ? 0 : ((high[i] >> group) & 1) << 4;
      out[group * 32 + i] = scale * static_cast<float>(low | fifth) - minimum;
    }
  }
}

void block_q4_k(const Byte* b, float* out) { block_k45(b, nullptr, b + 16, out); }
void block_q5_k(const Byte* b, float* out) { block_k45(b, b + 16, b + 48, out); }

void block_q6_k(const Byte* b, float* out) {
  const float d = half_at(b + 208);
  for (int half = 0; half < 2; ++half) {
    const Byte* low = b + half * 64;
    const Byte* high = b + 128 + half * 32;
    for (int i = 0; i < 128; ++i) {
      const int quarter = i / 32;
      const Byte nibbles = low[i % 64];
      const int low_bits = quarter < 2 ? nibbles & 15 : nibbles >> 4;
      const int high_bits = (high[i % 32] >> (2 * quarter)) & 3;
      const auto scale = static_cast<std::int8_t>(b[192 + half * 8 + i / 16]);
      const float group_scale = d * static_cast<float>(scale);
      out[half * 128 + i] = group_scale * static_cast<float>((low_bits | (high_bits << 4)) - 32);
    }
  }
}

template <void (*block)(const Byte*, float*)>
void blocks(const Byte* in, std::size_t count, DType dtype, float* out) {
  const tensor::DTypeInfo& shape = tensor::info(dtype);
  BATON_CHECK(count % shape.block_elements == 0);
  for (std::size_t i = 0; i < count / shape.block_elements; ++i) {
    block(in + i * shape.block_bytes, out + i * shape.block_elements);
  }
}

}  // namespace

void dequantise(DType dtype, const std::byte* data, std::size_t count, float* out) {
  const auto* in = reinterpret_cast<const Byte*>(data);
  switch (dtype) {
    case DType::f32:
      std::memcpy(out, in, count * sizeof(float));
      return;
    case DType::f16:
      for (std::size_t i = 0; i < count; ++i) out[i] = half_at(in + 2 * i);
      return;
    case DType::bf16:
      for (std::size_t i = 0; i < count; ++i) out[i] = bf16_to_f32(load<std::uint16_t>(in + 2 * i));
      return;
    case DType::q4_0:
      return blocks<block_q4_0>(in, count, dtype, out);
    case DType::q4_1:
      return blocks<block_q4_1>(in, count, dtype, out);
    case DType::q5_0:
      return blocks<block_q5_0>(in, count, dtype, out);
    case DType::q5_1:
      return blocks<block_q5_1>(in, count, dtype, out);
    case DType::q8_0:
      return blocks<block_q8_0>(in, count, dtype, out);
    case DType::q4_k:
      return blocks<block_q4_k>(in, count, dtype, out);
    case DType::q5_k:
      return blocks<block_q5_k>(in, count, dtype, out);
    case DType::q6_k:
      return blocks<block_q6_k>(in, count, dtype, out);
  }
  BATON_CHECK(false);
}

}  // namespace baton::kernels
