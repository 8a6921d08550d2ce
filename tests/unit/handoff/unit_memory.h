// Two workers' caches as maps of units.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "baton/handoff/core/types.h"

namespace baton::handoff {

/// One unit of a worker's cache.
using UnitBytes = std::vector<std::byte>;
using UnitPlace = std::tuple<std::uint32_t, std::uint32_t, int, std::int32_t, std::uint32_t>;

class Memory {
 public:
  explicit Memory(std::byte fill) : fill_(fill) {}
  UnitBytes& at(const Piece& piece, std::uint32_t i) {
    UnitBytes& bytes = units_[{piece.group, piece.layer_in_group, static_cast<int>(piece.component),
                               piece.block, piece.unit + i}];
    if (bytes.empty()) bytes.assign(unit_bytes, fill_);
    return bytes;
  }
  static constexpr std::size_t unit_bytes = 32;

 private:
  std::byte fill_;
  std::map<UnitPlace, UnitBytes> units_;
};

}  // namespace baton::handoff
