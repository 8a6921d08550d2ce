// The block pools of a worker, one per layer group: who holds which block, in which generation.
// Pure bookkeeping: it knows no memory, no network and no clock, and is used by one thread.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "baton/base/result.h"
#include "baton/kvcache/core/block_table.h"

namespace baton::kvcache {

/// Why a block may not be reused yet.
enum class HolderKind : std::uint8_t {
  sequence,      ///< in a sequence's table
  send_pin,      ///< source of a send that has not completed
  open_receive,  ///< target of a receive that could still write: quarantine once nobody else holds
                 ///< it
};
inline constexpr std::size_t holder_kinds = 3;

struct PoolGroup {
  std::int32_t blocks = 0;
  int window = 0;  ///< 0: full attention; else the query sees its last `window` positions
};

struct PoolConfig {
  int block_positions = 64;  ///< positions that one block holds in every group
  std::vector<PoolGroup> groups;
  /// Keep the list of freed blocks for take_freed(): test builds poison them.
  bool record_freed = false;
};

/// What the counters must show again when nothing is running: free == total, all else 0.
struct PoolCounts {
  std::int32_t total = 0;
  std::int32_t free = 0;
  std::array<std::int64_t, holder_kinds> references{};  ///< by HolderKind
  std::int32_t quarantined = 0;                         ///< held by nothing but open receives

  friend bool operator==(const PoolCounts&, const PoolCounts&) = default;
};

struct FreedBlock {
  int group = 0;
  std::int32_t block = 0;

  friend bool operator==(const FreedBlock&, const FreedBlock&) = default;
};

/// Positions that a sequence needs blocks for: each group from the first position that a query at
/// `next` (the first still to be computed) sees up to `end`; groups of full attention up to
/// `reserve_end` when that is greater (HNG-14: a whole prompt is reserved before its first chunk).
struct Coverage {
  std::int64_t next = 0;
  std::int64_t end = 0;
  std::int64_t reserve_end = 0;
};

class BlockPools {
 public:
  explicit BlockPools(PoolConfig config);
  ~BlockPools();
  BlockPools(BlockPools&&) noexcept;
  BlockPools& operator=(BlockPools&&) noexcept;

  int groups() const { return static_cast<int>(config_.groups.size()); }
  const PoolConfig& config() const { return config_; }

  // --- Questions -------------------------------------------------------------------------------

  /// Blocks that hold positions [begin, end) of one group.
  std::int64_t blocks_for(std::int64_t begin, std::int64_t end) const;
  /// The first position that a query at `next` still sees in the group.
  std::int64_t first_visible(int group, std::int64_t next) const;
  /// Blocks per group that extend(blocks, span) would take.
  std::vector<std::int64_t> need(const SequenceBlocks& blocks, const Coverage& span) const;
  /// Could a sequence of this length, computed in chunks of at most `chunk` rows, ever fit if it
  /// had the pools to itself?
  bool could_fit(std::int64_t positions, std::int64_t chunk) const;
  std::int32_t free_blocks(int group) const;
  /// Share of the group's blocks that are not free, 0 to 1.
  double usage(int group) const;
  PoolCounts counts(int group) const;
  /// Blocks of the sequence that would become free if it were released, per group.
  std::vector<std::int64_t> freed_by_release(const SequenceBlocks& blocks) const;

  // --- Sequences -------------------------------------------------------------------------------

  /// Makes `blocks` cover the span in every group, or takes nothing and returns false. Blocks
  /// wholly before the window of `span.next` are dropped either way.
  [[nodiscard]] bool extend(SequenceBlocks& blocks, const Coverage& span);
  /// Drops what no query at `next` or later sees (window groups only).
  void drop_invisible(SequenceBlocks& blocks, std::int64_t next);
  /// Gives back everything that the sequence holds, in every group, and empties it.
  void release(SequenceBlocks& blocks);
  /// Puts a fresh block with a new generation in the place of entry `index`, whose old block stays
  /// in quarantine while receives into it are open. False when no block is free.
  [[nodiscard]] bool replace(SequenceBlocks& blocks, int group, std::size_t index);

  // --- Other holders ---------------------------------------------------------------------------

  /// Is this what a peer may name: in range (else Reason::out_of_range) and of the generation that
  /// is held now (else Reason::stale_generation)?
  Result<void> check(int group, const BlockRef& ref) const;
  /// `ref` must pass check(); HolderKind::sequence is for tables only.
  void hold(int group, const BlockRef& ref, HolderKind kind);
  /// Ends one hold(). The generation is compared: a hold outlives no reuse.
  void unhold(int group, const BlockRef& ref, HolderKind kind);

  /// Blocks freed since the last call, oldest first (empty unless record_freed). To be taken, and
  /// poisoned, before anything is written into blocks allocated since.
  std::vector<FreedBlock> take_freed();

 private:
  struct Group;

  /// Where the group's part of the span ends.
  std::int64_t end_in(int group, const Coverage& span) const;
  Group& at(int group);
  const Group& at(int group) const;
  void add_reference(Group& group, std::int32_t block, HolderKind kind);
  void drop_reference(int index, std::int32_t block, HolderKind kind);

  PoolConfig config_;
  std::vector<Group> groups_;
  std::vector<FreedBlock> freed_;
  Generation last_generation_ = 0;
};

}  // namespace baton::kvcache
