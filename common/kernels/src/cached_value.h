// What a cached element stands for, one by one: for the scalar sets.
#pragma once

#include "baton/tensor/unit_layout.h"

#include "half.h"

namespace baton::kernels {

/// Channel d of a position in a head's slice of a unit, as float32: exact.
inline float cached_value(const tensor::UnitLayout& unit, tensor::KvPart part,
                          const std::byte* head, int position, int d) {
  const bool is_k = part == tensor::KvPart::k;
  const std::size_t at = is_k ? unit.k_index(position, d) : unit.v_index(position, d);
  if (unit.dtype == tensor::CacheDtype::f32) return load<float>(head + at * 4);
  if (unit.dtype == tensor::CacheDtype::bf16) {
    return bf16_to_f32(load<std::uint16_t>(head + at * 2));
  }
  const std::size_t scale =
      is_k ? unit.k_scale_index(position, d) : unit.v_scale_index(position, d);
  return static_cast<float>(load<std::int8_t>(head + at)) *
         bf16_to_f32(load<std::uint16_t>(head + unit.element_bytes() + scale * 2));
}

}  // namespace baton::kernels
