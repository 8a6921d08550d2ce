#include "lanes16/integer_format.h"

#include <cstring>

#include "baton/base/check.h"

#include "half.h"
#include "k_scales.h"

namespace baton::kernels {
namespace {

using tensor::DType;
using Byte = std::uint8_t;

/// Groups of 32 inputs in a block of the file.
int groups_per_block(DType dtype) {
  return static_cast<int>(tensor::info(dtype).block_elements) / group_inputs;
}

void nibbles(const Byte* from, Byte (&out)[group_inputs]) {
  for (int i = 0; i < 16; ++i) {
    out[i] = from[i] & 15;
    out[i + 16] = from[i] >> 4;
  }
}

void add_fifth_bits(std::uint32_t high, Byte (&out)[group_inputs]) {
  for (int i = 0; i < group_inputs; ++i) {
    out[i] = static_cast<Byte>(out[i] | ((high >> i) & 1U) << 4);
  }
}

/// Group g of a Q4_K or Q5_K block: its nibbles are one half of 32 bytes shared with a neighbour.
void k_nibbles(const Byte* quants, int g, Byte (&out)[group_inputs]) {
  const Byte* from = quants + g / 2 * group_inputs;
  for (int i = 0; i < group_inputs; ++i) out[i] = g % 2 == 0 ? from[i] & 15 : from[i] >> 4;
}

void q6_quants(const Byte* block, int g, Byte (&out)[group_inputs]) {
  const Byte* low = block + g / 4 * 64 + g % 2 * group_inputs;
  const Byte* high = block + 128 + g / 4 * group_inputs;
  const int quarter = g % 4;
  for (int i = 0; i < group_inputs; ++i) {
    const int low_bits = quarter < 2 ? low[i] & 15 : low[i] >> 4;
    out[i] = static_cast<Byte>(low_bits | ((high[i] >> (2 * quarter)) & 3) << 4);
  }
}

/// The quants of group g of a block, raised by the format's bias.
void file_quants(DType dtype, const Byte* block, int g, Byte (&out)[group_inputs]) {
  switch (dtype) {
    case DType::q4_0:
      return nibbles(block + 2, out);
    case DType::q4_1:
      return nibbles(block + 4, out);
    case DType::q5_0:
      nibbles(block + 6, out);
      return add_fifth_bits(load<std::uint32_t>(block + 2), out);
    case DType::q5_1:
      nibbles(block + 8, out);
      return add_fifth_bits(load<std::uint32_t>(block + 4), out);
    case DType::q8_0:
      for (int i = 0; i < group_inputs; ++i) out[i] = block[2 + i] ^ 0x80;
      return;
    case DType::q4_k:
      return k_nibbles(block + 16, g, out);
    case DType::q5_k:
      k_nibbles(block + 48, g, out);
      for (int i = 0; i < group_inputs; ++i) {
        out[i] = static_cast<Byte>(out[i] | ((block[16 + i] >> g) & 1) << 4);
      }
      return;
    case DType::q6_k:
      return q6_quants(block, g, out);
    case DType::f32:
    case DType::f16:
    case DType::bf16:
      break;
  }
  BATON_CHECK(false);
}

void place_quants(int bits, const Byte (&q)[group_inputs], int lane, Byte* to) {
  if (bits == 8) {
    for (int i = 0; i < group_inputs; ++i) to[(i / 4 * lanes + lane) * 4 + i % 4] = q[i];
    return;
  }
  for (int i = 0; i < 16; ++i) {
    to[(i / 4 * lanes + lane) * 4 + i % 4] = static_cast<Byte>((q[i] & 15) | (q[i + 16] & 15) << 4);
  }
  if (bits == 4) return;
  std::uint32_t words[2] = {0, 0};
  for (int i = 0; i < group_inputs; ++i) {
    const std::uint32_t upper = q[i] >> 4;
    if (bits == 5) {
      words[0] |= upper << (8 * (i % 4) + i / 4);
    } else {
      words[i / 16] |= upper << (8 * (i % 4) + 2 * (i % 16 / 4));
    }
  }
  for (int k = 0; k < bits - 4; ++k) {
    std::memcpy(to + 256 + (k * lanes + lane) * 4, &words[k], sizeof words[k]);
  }
}

/// The scales of the record that holds a group; `g` is the group's place in it.
void place_scales(const IntegerFormat& format, const Byte* block, int g, int lane, Byte* record) {
  const auto half = [&](int place, std::size_t from) {
    std::memcpy(record + (place * lanes + lane) * 2, block + from, 2);
  };
  half(0, format.has_halves() ? 208 : 0);
  if (format.has_minimum()) half(1, 2);
  if (format.record_groups() == 1) return;
  Byte* scales = record + format.group_scales(g);
  if (format.has_halves()) {
    scales[lane] = block[192 + 2 * g];
    scales[lanes + lane] = block[192 + 2 * g + 1];
  } else {
    const ScaleMin pair = scale_min(block + 4, g);
    scales[lane] = static_cast<Byte>(pair.scale);
    scales[lanes + lane] = static_cast<Byte>(pair.min);
  }
}

int stored_quant(int bits, const Byte* group, int lane, int i) {
  if (bits == 8) return group[(i / 4 * lanes + lane) * 4 + i % 4];
  const int low = i % 16;
  const int both = group[(low / 4 * lanes + lane) * 4 + low % 4];
  const int nibble = i < 16 ? both & 15 : both >> 4;
  if (bits == 4) return nibble;
  const Byte* words = group + 256 + lane * 4;
  if (bits == 5) {
    const auto word = load<std::uint32_t>(words);
    return nibble | static_cast<int>((word >> (8 * (i % 4) + i / 4)) & 1U) << 4;
  }
  const auto word = load<std::uint32_t>(words + i / 16 * 64);
  return nibble | static_cast<int>((word >> (8 * (i % 4) + 2 * (low / 4))) & 3U) << 4;
}

}  // namespace

void read_group(const IntegerFormat& format, const std::byte* panel, std::size_t scales_offset,
                int lane, int group, GroupWeights& out) {
  const auto* quants =
      reinterpret_cast<const Byte*>(panel) + static_cast<std::size_t>(group) * format.quant_bytes();
  for (int i = 0; i < group_inputs; ++i) {
    out.quants[i] =
        static_cast<std::int8_t>(stored_quant(format.bits, quants, lane, i) - format.bias);
  }
  const int g = group % format.record_groups();
  const auto* record =
      reinterpret_cast<const Byte*>(panel) + scales_offset +
      static_cast<std::size_t>(group / format.record_groups()) * format.record_bytes();
  const auto half = [&](int place) {
    return f16_to_f32(load<std::uint16_t>(record + (place * lanes + lane) * 2));
  };
  out.scale = half(0);
  out.minimum = format.has_minimum() ? half(1) : 0;
  if (format.record_groups() == 1) return;
  const Byte* scales = record + format.group_scales(g);
  if (format.has_halves()) {
    out.halves[0] = static_cast<std::int8_t>(scales[lane]);
    out.halves[1] = static_cast<std::int8_t>(scales[lanes + lane]);
  } else {
    out.scale *= static_cast<float>(scales[lane]);
    // An integer is negated, so that a minimum of zero is +0.
    out.minimum *= static_cast<float>(-static_cast<int>(scales[lanes + lane]));
  }
}

void write_group(const IntegerFormat& format, DType dtype, const std::byte* row, int lane,
                 int group, std::byte* panel, std::size_t scales_offset) {
  const int per_block = groups_per_block(dtype);
  const auto* block = reinterpret_cast<const Byte*>(row) +
                      static_cast<std::size_t>(group / per_block) * tensor::info(dtype).block_bytes;
  auto* to = reinterpret_cast<Byte*>(panel);
  Byte quants[group_inputs];
  file_quants(dtype, block, group % per_block, quants);
  place_quants(format.bits, quants, lane,
               to + static_cast<std::size_t>(group) * format.quant_bytes());
  place_scales(
      format, block, group % per_block, lane,
      to + scales_offset +
          static_cast<std::size_t>(group / format.record_groups()) * format.record_bytes());
}

}  // namespace baton::kernels
