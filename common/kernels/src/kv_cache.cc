#include "kv_cache.h"

#include "baton/base/check.h"

#include "half.h"

namespace baton::kernels {
namespace {

using tensor::unit_positions;
using tensor::UnitLayout;

void write_k_bf16(const UnitLayout& unit, int slot, const float* from, std::byte* head) {
  for (int d = 0; d < unit.head_dim; d += 2) {
    const std::uint32_t word =
        f32_to_bf16(from[d]) | static_cast<std::uint32_t>(f32_to_bf16(from[d + 1])) << 16;
    std::memcpy(head + unit.k_index(slot, d) * 2, &word, sizeof word);
  }
}

void write_v_bf16(const UnitLayout& unit, int slot, const float* from, std::byte* head) {
  for (int d = 0; d < unit.head_dim; ++d) {
    const std::uint16_t value = f32_to_bf16(from[d]);
    std::memcpy(head + unit.v_index(slot, d) * 2, &value, sizeof value);
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

/// One head of one span: rows in ascending positions, so that a unit is cleared before its rows.
void write_head(const CacheGeometry& cache, ConstRows k, ConstRows v, const RowSpan& span,
                int head) {
  const UnitLayout& unit = cache.unit;
  const std::size_t head_offset = static_cast<std::size_t>(head) * unit.head_bytes();
  const bool narrow = unit.dtype == tensor::CacheDtype::bf16;
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
    const float* k_row = k.row(span.row + i) + head * unit.head_dim;
    const float* v_row = v.row(span.row + i) + head * unit.head_dim;
    (narrow ? write_k_bf16 : write_k_f32)(unit, slot, k_row, k_unit + head_offset);
    (narrow ? write_v_bf16 : write_v_f32)(unit, slot, v_row, v_unit + head_offset);
  }
}

}  // namespace

void write_kv_rows(ThreadPool& pool, const CacheGeometry& cache, ConstRows k, ConstRows v,
                   std::span<const RowSpan> spans) {
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
