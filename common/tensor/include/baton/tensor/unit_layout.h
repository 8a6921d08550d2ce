// The canonical layout of a unit: 16 positions of one layer's K or V, all KV heads. It is what is
// computed on, sent and digested, the single source of geometry for kernels, cache and handoff, and
// a part of the fingerprint.
//
//   K: [head][d / pair][position 0..15][d % pair]       keys in the lanes
//   V: [head][position / pair][d][position % pair]      pairs of keys beside each other
//
// pair is 2 for bf16 (the operand shape of a bf16 dot product), else 1. A head's slice of a unit is
// contiguous. Unused positions of a partial unit are zero.
//
// Elements of q8_0 are int8. The slice's scales follow them, a bf16 for each position and 32 of d:
//
//   K: [head][d / 32][position]                         beside the keys in the lanes
//   V: [head][position][d / 32]
#pragma once

#include <cstddef>
#include <cstdint>

#include "baton/tensor/dtype.h"

namespace baton::tensor {

inline constexpr int unit_positions = 16;

/// Bumped when the layout above changes; enters the fingerprint.
inline constexpr std::uint32_t unit_layout_revision = 1;

/// Neighbours in d that share a scale.
inline constexpr int scale_channels = 32;

enum class KvPart : std::uint8_t { k = 0, v = 1 };

struct UnitLayout {
  CacheDtype dtype = CacheDtype::bf16;
  int kv_heads = 0;
  int head_dim = 0;  ///< even, and a multiple of scale_channels where there are scales

  constexpr bool has_scales() const { return dtype == CacheDtype::q8_0; }
  constexpr bool valid() const { return head_dim % (has_scales() ? scale_channels : 2) == 0; }

  constexpr int pair() const { return dtype == CacheDtype::bf16 ? 2 : 1; }
  constexpr std::size_t element_size() const {
    return dtype == CacheDtype::f32 ? 4 : dtype == CacheDtype::bf16 ? 2 : 1;
  }
  constexpr int scales_per_position() const { return has_scales() ? head_dim / scale_channels : 0; }

  /// Bytes of the elements of one head's slice of a unit: where its scales begin.
  constexpr std::size_t element_bytes() const {
    return static_cast<std::size_t>(head_dim) * unit_positions * element_size();
  }
  /// Bytes of one head's slice of a unit.
  constexpr std::size_t head_bytes() const {
    const int scales = scales_per_position() * unit_positions;
    return element_bytes() + static_cast<std::size_t>(scales) * sizeof(std::uint16_t);
  }
  constexpr std::size_t unit_bytes() const {
    return static_cast<std::size_t>(kv_heads) * head_bytes();
  }

  /// Element index inside a head's slice.
  constexpr std::size_t k_index(int position, int d) const {
    const int p = pair();
    const int index = (d / p * unit_positions + position) * p + d % p;
    return static_cast<std::size_t>(index);
  }
  constexpr std::size_t v_index(int position, int d) const {
    const int p = pair();
    const int index = (position / p * head_dim + d) * p + position % p;
    return static_cast<std::size_t>(index);
  }

  /// Index of the scale of channel d among those of a head's slice.
  constexpr std::size_t k_scale_index(int position, int d) const {
    const int index = d / scale_channels * unit_positions + position;
    return static_cast<std::size_t>(index);
  }
  constexpr std::size_t v_scale_index(int position, int d) const {
    const int index = position * scales_per_position() + d / scale_channels;
    return static_cast<std::size_t>(index);
  }

  friend bool operator==(const UnitLayout&, const UnitLayout&) = default;
};

constexpr std::int64_t units_for(std::int64_t positions) {
  return (positions + unit_positions - 1) / unit_positions;
}

}  // namespace baton::tensor
