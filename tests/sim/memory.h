// A simulated cache: one 64-bit value a position, group, layer and component.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <tuple>
#include <vector>

#include "baton/base/ids.h"
#include "baton/handoff/core/types.h"

namespace baton::sim {

inline constexpr int unit_positions = 16;

inline std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  hash ^= value + 0x9e3779b97f4a7c15ULL + (hash << 6) + (hash >> 2);
  hash *= 0xff51afd7ed558ccdULL;
  return hash ^ (hash >> 33);
}

/// Hash of ids[0, count).
inline std::uint64_t hash_of(std::span<const TokenId> ids, std::size_t count) {
  std::uint64_t hash = 7;
  for (std::size_t i = 0; i < count; ++i) hash = mix(hash, static_cast<std::uint64_t>(ids[i]));
  return hash;
}

/// What the cache of a position must hold, given the hash of all ids up to and with it.
inline std::uint64_t cached_value(std::uint64_t prefix_hash, std::uint32_t layer, int component) {
  return mix(prefix_hash, layer * 2 + static_cast<std::uint32_t>(component) + 1);
}

using Unit = std::vector<std::uint64_t>;

class Memory {
 public:
  using Key = std::tuple<std::uint32_t, std::uint32_t, int, std::int32_t, std::uint32_t>;

  Unit& unit(std::uint32_t group, std::uint32_t layer, int component, std::int32_t block,
             std::uint32_t index) {
    Unit& unit = units_[{group, layer, component, block, index}];
    if (unit.empty()) unit.assign(unit_positions, poison);
    return unit;
  }
  Unit& unit(const handoff::Piece& piece, std::uint32_t i) {
    return unit(piece.group, piece.layer_in_group, static_cast<int>(piece.component), piece.block,
                piece.unit + i);
  }
  void clear() { units_.clear(); }
  /// What a freed block holds is nobody's any more.
  void poison_block(std::uint32_t group, std::int32_t block) {
    for (auto& [key, unit] : units_) {
      if (std::get<0>(key) == group && std::get<3>(key) == block) unit.clear();
    }
  }

 private:
  static constexpr std::uint64_t poison = 0xDDDDDDDDDDDDDDDDULL;
  std::map<Key, Unit> units_;
};

}  // namespace baton::sim
