// The canonical layout of a unit: 16 positions of one layer's K or V, all KV heads. It is what is
// computed on, sent and digested, the single source of geometry for kernels, cache and handoff, and
// a part of the fingerprint.
//
//   K: [head][d / pair][position 0..15][d % pair]       keys in the lanes
//   V: [head][position / pair][d][position % pair]      pairs of keys beside each other
//
// pair is 2 for bf16 (the operand shape of a bf16 dot product) and 1 for f32. A head's slice of a
// unit is contiguous. Unused positions of a partial unit are zero.
#pragma once

#include <cstddef>
#include <cstdint>

#include "baton/tensor/dtype.h"

namespace baton::tensor {

inline constexpr int unit_positions = 16;

/// Bumped when the layout above changes; enters the fingerprint.
inline constexpr std::uint32_t unit_layout_revision = 1;

enum class KvPart : std::uint8_t { k = 0, v = 1 };

struct UnitLayout {
  CacheDtype dtype = CacheDtype::bf16;
  int kv_heads = 0;
  int head_dim = 0;  ///< even

  constexpr int pair() const { return dtype == CacheDtype::bf16 ? 2 : 1; }
  constexpr std::size_t element_size() const { return dtype == CacheDtype::bf16 ? 2 : 4; }

  /// Bytes of one head's slice of a unit.
  constexpr std::size_t head_bytes() const {
    return static_cast<std::size_t>(head_dim) * unit_positions * element_size();
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

  friend bool operator==(const UnitLayout&, const UnitLayout&) = default;
};

constexpr std::int64_t units_for(std::int64_t positions) {
  return (positions + unit_positions - 1) / unit_positions;
}

}  // namespace baton::tensor
