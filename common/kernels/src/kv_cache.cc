#include "kv_cache.h"

#include <algorithm>

#include "baton/base/check.h"

#include "half.h"

namespace baton::kernels {
namespace {

using tensor::unit_positions;
using tensor::UnitLayout;

/// Rounded together, which compilers turn into vectors; the stores are what is left one by one.
void write_k_bf16(const UnitLayout& unit, int slot, const float* from, std::byte* head) {
  std::uint16_t halves[max_head_dim];
  for (int d = 0; d < unit.head_dim; ++d) halves[d] = f32_to_bf16(from[d]);
  std::byte* to = head + unit.k_index(slot, 0) * 2;
  const std::size_t pair_bytes = (unit.k_index(slot, 2) - unit.k_index(slot, 0)) * 2;
  for (int d = 0; d < unit.head_dim; d += 2, to += pair_bytes) {
    std::memcpy(to, halves + d, 2 * sizeof *halves);
  }
}

void write_v_bf16(const UnitLayout& unit, int slot, const float* from, std::byte* head) {
  for (int d = 0; d < unit.head_dim; ++d) {
    const std::uint16_t value = f32_to_bf16(from[d]);
    std::memcpy(head + unit.v_index(slot, d) * 2, &value, sizeof value);
  }
}

/// An even slot and the next one, whose values lie beside each other.
void write_v_pair_bf16(const UnitLayout& unit, int slot, const float* even, const float* odd,
                       std::byte* head) {
  std::byte* to = head + unit.v_index(slot, 0) * 2;
  for (int d = 0; d < unit.head_dim; ++d) {
    const std::uint32_t word =
        f32_to_bf16(even[d]) | static_cast<std::uint32_t>(f32_to_bf16(odd[d])) << 16;
    std::memcpy(to + std::ptrdiff_t{d} * 4, &word, sizeof word);
  }
}

void write_k_f32(const UnitLayout& unit, int slot, const float* from, std::byte* head) {
  for (int d = 0; d < unit.head_dim; ++d) {
    std::memcpy(head + unit.k_index(slot, d) * 4, from + d, sizeof(float));
  }
}

void write_v_f32(const UnitLayout& unit, int slot, const float* from, std::byte* head) {
  std::memcpy(head + unit.v_index(slot, 0) * 4, from, unit.head_dim * sizeof(float));
}

/// Channels whose largest magnitude is below this are all zeros: the scale's inverse stays finite.
constexpr float smallest_amax = 0x1p-100F;

/// The 32 channels of a row that share a scale, as a cache of q8_0 holds them.
struct QuantisedGroup {
  std::uint16_t scale = 0;
  std::int8_t quants[tensor::scale_channels] = {};
};

/// No step depends on the float mode: scales, inverses and what is not rounded to 0 are normal.
QuantisedGroup quantised(const float* x) {
  std::uint32_t highest = 0;
  for (int i = 0; i < tensor::scale_channels; ++i) {
    highest = std::max(highest, std::bit_cast<std::uint32_t>(x[i]) & 0x7fffffffU);
  }
  QuantisedGroup out;
  constexpr std::uint16_t not_a_number = 0x7fc0;
  if (highest >= 0x7f800000U) return {not_a_number, {}};
  const auto amax = std::bit_cast<float>(highest);
  if (amax < smallest_amax) return out;
  // Upwards, so that no quant is beyond 127.
  const auto scale = std::bit_cast<std::uint32_t>(amax / 127.0F) + 0xffffU;
  out.scale = static_cast<std::uint16_t>(scale >> 16);
  const float inverse = 1.0F / bf16_to_f32(out.scale);
  for (int i = 0; i < tensor::scale_channels; ++i) {
    // In 1.5 * 2^23 + n the last bits are those of n, rounded to nearest even.
    const float shifted = x[i] * inverse + 0x1.8p+23F;
    out.quants[i] = static_cast<std::int8_t>(std::bit_cast<std::uint32_t>(shifted) & 0xffU);
  }
  return out;
}

void write_k_q8_0(const UnitLayout& unit, int slot, const float* from, std::byte* head) {
  std::byte* scales = head + unit.element_bytes();
  for (int d = 0; d < unit.head_dim; d += tensor::scale_channels) {
    const QuantisedGroup group = quantised(from + d);
    std::memcpy(scales + unit.k_scale_index(slot, d) * 2, &group.scale, sizeof group.scale);
    for (int i = 0; i < tensor::scale_channels; ++i) {
      head[unit.k_index(slot, d + i)] = static_cast<std::byte>(group.quants[i]);
    }
  }
}

void write_v_q8_0(const UnitLayout& unit, int slot, const float* from, std::byte* head) {
  std::byte* scales = head + unit.element_bytes();
  for (int d = 0; d < unit.head_dim; d += tensor::scale_channels) {
    const QuantisedGroup group = quantised(from + d);
    std::memcpy(scales + unit.v_scale_index(slot, d) * 2, &group.scale, sizeof group.scale);
    std::memcpy(head + unit.v_index(slot, d), group.quants, sizeof group.quants);
  }
}

/// Writes a head's row into its slice of a unit.
using WriteRow = void (*)(const UnitLayout& unit, int slot, const float* from, std::byte* head);

struct Writers {
  WriteRow k;
  WriteRow v;
  /// Rows of an even slot and the next one at once; null: one by one.
  void (*v_pair)(const UnitLayout& unit, int slot, const float* even, const float* odd,
                 std::byte* head);
};

Writers writers(tensor::CacheDtype dtype) {
  switch (dtype) {
    case tensor::CacheDtype::bf16:
      return {write_k_bf16, write_v_bf16, write_v_pair_bf16};
    case tensor::CacheDtype::f32:
      return {write_k_f32, write_v_f32, nullptr};
    case tensor::CacheDtype::q8_0:
      return {write_k_q8_0, write_v_q8_0, nullptr};
  }
  BATON_CHECK(false && "not a cache dtype");
}

/// One head of one span: rows in ascending positions, so that a unit is cleared before its rows.
void write_head(const CacheGeometry& cache, ConstRows k, ConstRows v, const RowSpan& span,
                int head) {
  const UnitLayout& unit = cache.unit;
  const std::size_t head_offset = static_cast<std::size_t>(head) * unit.head_bytes();
  const Writers write = writers(unit.dtype);
  const auto row_of = [&](ConstRows rows, int i) {
    return rows.row(span.row + i) + head * unit.head_dim;
  };
  bool v_is_written = false;
  for (int i = 0; i < span.count; ++i) {
    const std::int64_t position = span.first_position + i;
    std::byte* k_unit = unit_of(cache, span.kv.k, position);
    std::byte* v_unit = unit_of(cache, span.kv.v, position);
    BATON_CHECK(k_unit != nullptr && v_unit != nullptr);
    const int slot = static_cast<int>(position % unit_positions);
    if (slot == 0) {
      std::memset(k_unit + head_offset, 0, unit.head_bytes());
      std::memset(v_unit + head_offset, 0, unit.head_bytes());
    }
    write.k(unit, slot, row_of(k, i), k_unit + head_offset);
    if (v_is_written) {
      v_is_written = false;
    } else if (write.v_pair != nullptr && slot % 2 == 0 && i + 1 < span.count) {
      write.v_pair(unit, slot, row_of(v, i), row_of(v, i + 1), v_unit + head_offset);
      v_is_written = true;
    } else {
      write.v(unit, slot, row_of(v, i), v_unit + head_offset);
    }
  }
}

}  // namespace

void write_kv_rows(ThreadPool& pool, const CacheGeometry& cache, ConstRows k, ConstRows v,
                   std::span<const RowSpan> spans) {
  BATON_CHECK(cache.unit.valid());
  const int heads = cache.unit.kv_heads;
  const int tasks = static_cast<int>(spans.size()) * heads;
  // A few rows are written faster than a second thread is told about them.
  constexpr int rows_worth_sharing = 16;
  const auto task = [&](int i) {
    write_head(cache, k, v, spans[static_cast<std::size_t>(i / heads)], i % heads);
  };
  if (k.rows >= rows_worth_sharing) return pool.run(tasks, task);
  for (int i = 0; i < tasks; ++i) task(i);
}

}  // namespace baton::kernels
