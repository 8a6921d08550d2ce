// The header of each data message: which units it carries, for which grant, with which digests.
//
// Wire: fixed little-endian fields (no Protobuf: it is built and checked once a layer and chunk).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "baton/base/result.h"
#include "baton/protocol/messages.h"

namespace baton::protocol {

/// Units of both parts of one layer: the payload is K units [first, first + count) then the V
/// units.
struct UnitHeader {
  AttemptKey key;
  Epoch to;  ///< of the decode worker
  std::uint64_t grant = 0;
  std::uint32_t group = 0;
  std::uint32_t layer = 0;  ///< of the model
  std::uint32_t first_unit = 0;
  std::uint32_t units = 0;
  std::uint64_t unit_bytes = 0;
  std::vector<SlotRun> slots;       ///< the blocks of the grant that these units go to
  std::vector<Digest128> bindings;  ///< K units' binding digests, then V's
  friend bool operator==(const UnitHeader&, const UnitHeader&) = default;
};

/// Units of one message; keeps the header below the transport's 16 KiB.
inline constexpr std::uint32_t max_units_per_message = 256;

std::vector<std::byte> encode(const UnitHeader& header);
Result<UnitHeader> decode_unit_header(std::span<const std::byte> bytes);

}  // namespace baton::protocol
