// Values shared by the sender's and the receiver's side of a handoff.
#pragma once

#include <cstdint>
#include <vector>

#include "baton/base/strong.h"
#include "baton/protocol/messages.h"

namespace baton::handoff {

/// One pair connection (control and data plane together) as the io side numbers it.
using LinkId = Strong<std::uint64_t, struct LinkIdTag>;
/// One computation of a prompt that may be handed over, numbered by the node core. A new prefill
/// leg of the same request is another source, so that an aborted one may still be ending.
using SourceId = Strong<std::uint64_t, struct SourceIdTag>;
/// One data message: the sender's send or the receiver's offer.
using TransferId = Strong<std::uint64_t, struct TransferIdTag>;

/// Positions of a unit (tensor/unit_layout.h; the core does not see tensors).
inline constexpr std::int64_t unit_positions = 16;

/// One layer group as both sides of a fingerprint see it.
struct GroupGeometry {
  int window = 0;                     ///< 0: full attention
  std::vector<std::uint32_t> layers;  ///< ascending model layers
};

/// What a fingerprint fixes about the cache.
struct Geometry {
  std::uint32_t cache_dtype = 0;
  std::uint64_t unit_bytes = 0;
  std::vector<GroupGeometry> groups;
};

/// First unit that a handoff at `length` needs in a group: a window's earlier units are not sent.
std::uint32_t first_needed_unit(int window, std::int64_t length);
/// One past the last unit.
std::uint32_t end_unit(std::int64_t length);

/// A sequence's blocks of one group on this worker. blocks[i] holds the units
/// [(first_block + i) * block_units, …).
struct LocalBlocks {
  std::uint32_t block_units = 1;
  std::uint32_t first_block = 0;
  std::vector<std::int32_t> blocks;
};

/// One block in one of its lives.
struct BlockName {
  std::uint32_t group = 0;
  std::int32_t block = 0;
  std::uint32_t generation = 0;
  friend bool operator==(const BlockName&, const BlockName&) = default;
};

/// The blocks of a grant's group one by one, in run order.
std::vector<BlockName> blocks_of(const protocol::GrantGroup& granted);

/// Units [unit, unit + count) of one block, layer and component: neighbours in memory.
struct Piece {
  std::uint32_t group = 0;
  std::uint32_t layer_in_group = 0;
  protocol::Component component = protocol::Component::k;
  std::int32_t block = 0;
  std::uint32_t unit = 0;  ///< inside the block
  std::uint32_t count = 0;
  friend bool operator==(const Piece&, const Piece&) = default;
};

/// Where the units [first, first + count) of a layer lie: K pieces, then V pieces.
std::vector<Piece> pieces_of(const LocalBlocks& local, std::uint32_t group,
                             std::uint32_t layer_in_group, std::uint32_t first,
                             std::uint32_t count);

}  // namespace baton::handoff
