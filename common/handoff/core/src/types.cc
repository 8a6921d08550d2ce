#include "baton/handoff/core/types.h"

#include <algorithm>

#include "baton/base/check.h"

namespace baton::handoff {
namespace {

void append_pieces(std::vector<Piece>& out, const LocalBlocks& local, Piece piece,
                   std::uint32_t first, std::uint32_t count) {
  for (std::uint32_t at = first; at < first + count; at += piece.count) {
    const std::uint32_t index = at / local.block_units;
    BATON_CHECK(index >= local.first_block);
    const std::uint32_t slot = index - local.first_block;
    BATON_CHECK(slot < local.blocks.size() && local.blocks[slot] >= 0);
    piece.block = local.blocks[slot];
    piece.unit = at % local.block_units;
    piece.count = std::min(local.block_units - piece.unit, first + count - at);
    out.push_back(piece);
  }
}

}  // namespace

std::uint32_t first_needed_unit(int window, std::int64_t length) {
  if (window == 0) return 0;
  // The query at position `length` sees itself and the window - 1 positions before it.
  const std::int64_t first_position = std::max<std::int64_t>(0, length - (window - 1));
  // A window of one position needs nothing cached; the last unit is sent all the same, so that
  // every group of a handoff has at least one.
  return static_cast<std::uint32_t>(
      std::min(first_position / unit_positions, (length - 1) / unit_positions));
}

std::uint32_t end_unit(std::int64_t length) {
  return static_cast<std::uint32_t>((length + unit_positions - 1) / unit_positions);
}

std::vector<BlockName> blocks_of(const protocol::GrantGroup& granted) {
  std::vector<BlockName> out;
  for (const protocol::SlotRun& run : granted.slots) {
    for (std::uint32_t i = 0; i < run.count; ++i) {
      out.push_back({granted.group, static_cast<std::int32_t>(run.first + i), run.generation});
    }
  }
  return out;
}

std::vector<Piece> pieces_of(const LocalBlocks& local, std::uint32_t group,
                             std::uint32_t layer_in_group, std::uint32_t first,
                             std::uint32_t count) {
  std::vector<Piece> out;
  Piece piece;
  piece.group = group;
  piece.layer_in_group = layer_in_group;
  for (protocol::Component component : {protocol::Component::k, protocol::Component::v}) {
    piece.component = component;
    append_pieces(out, local, piece, first, count);
  }
  return out;
}

}  // namespace baton::handoff
