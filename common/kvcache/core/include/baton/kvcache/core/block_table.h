// Which blocks hold a sequence's positions, per layer group. Entry i of a table holds positions
// [i * block_positions, (i + 1) * block_positions).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace baton::kvcache {

/// Stamp of one allocation, counted over all groups of a worker's pools: a block that is freed and
/// given out again carries another one (the count wraps after 2^32 allocations, years apart).
/// Blocks of one allocation share it, so that a run of them is one (first, count, generation).
using Generation = std::uint32_t;

struct BlockRef {
  std::int32_t block = -1;
  Generation generation = 0;

  friend bool operator==(const BlockRef&, const BlockRef&) = default;
};

/// `count` neighbouring blocks of one generation: how a slot list travels.
struct BlockRun {
  std::int32_t first = 0;
  std::int32_t count = 0;
  Generation generation = 0;

  friend bool operator==(const BlockRun&, const BlockRun&) = default;
};

/// One sequence's blocks of one group. Blocks that a window has left behind are -1; they are
/// always a prefix. Only BlockPools changes a table.
class BlockTable {
 public:
  const std::vector<std::int32_t>& blocks() const { return blocks_; }
  std::size_t size() const { return blocks_.size(); }
  /// Entries before this index are -1.
  std::size_t first_held() const { return first_held_; }
  /// `index` in [first_held(), size()).
  BlockRef ref(std::size_t index) const { return {blocks_[index], generations_[index]}; }

 private:
  friend class BlockPools;

  std::vector<std::int32_t> blocks_;
  std::vector<Generation> generations_;
  std::size_t first_held_ = 0;
};

/// Everything that one sequence holds. Move-only: two owners of one reference cannot exist. It does
/// not free itself; BlockPools::release does, and is the only way (COR-15).
class SequenceBlocks {
 public:
  SequenceBlocks() = default;
  SequenceBlocks(const SequenceBlocks&) = delete;
  SequenceBlocks& operator=(const SequenceBlocks&) = delete;
  SequenceBlocks(SequenceBlocks&& other) noexcept = default;
  SequenceBlocks& operator=(SequenceBlocks&& other) noexcept = default;

  /// True when nothing is held in any group.
  bool empty() const { return groups_.empty(); }
  std::size_t groups() const { return groups_.size(); }
  const BlockTable& group(int index) const { return groups_[static_cast<std::size_t>(index)]; }

 private:
  friend class BlockPools;

  std::vector<BlockTable> groups_;
};

/// The blocks [first, first + count) of a table as runs, in table order; all must be held.
std::vector<BlockRun> runs_of(const BlockTable& table, std::size_t first, std::size_t count);

/// Every held block of a table as runs.
std::vector<BlockRun> runs_of(const BlockTable& table);

/// Number of blocks in `runs`; -1 when a run is malformed (count < 1, negative or overflowing
/// range), so that a peer's list is measured before anything is made of it (R7).
std::int64_t blocks_in(std::span<const BlockRun> runs);

}  // namespace baton::kvcache
