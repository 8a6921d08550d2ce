// The block pools of a worker, one per layer group: who holds which block, in which generation, and
// which whole blocks are kept under their prefix's key for sequences to come.
// Pure bookkeeping: it knows no memory, no network and no clock, and is used by one thread.
//
// A block is held, cached (indexed under a key, held by nobody) or free. What is taken comes from
// the free ones first, then from the cached ones, the longest unused first. A block that is indexed
// is whole and never written again; its generation stays the same until it is evicted.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "baton/base/result.h"
#include "baton/kvcache/core/block_table.h"
#include "baton/prefix/chain.h"

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

/// What the counters must show again when nothing is running: free + cached == total, all else 0.
struct PoolCounts {
  std::int32_t total = 0;
  std::int32_t free = 0;
  std::int32_t cached = 0;                              ///< indexed and held by nobody
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
  /// Blocks that can be taken now: free and cached ones.
  std::int32_t available_blocks(int group) const;
  /// Share of the group's blocks that somebody holds, 0 to 1.
  double usage(int group) const;
  PoolCounts counts(int group) const;
  /// Is the block in the prefix index, and so never written again in its generation?
  bool is_indexed(int group, std::int32_t block) const;
  /// Blocks of the sequence that would become available if it were released, per group.
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

  // --- Prefixes: `keys` are those of the sequence's whole blocks (prefix::Chain) -----------------

  /// The greatest length, a multiple of the block size and at most `limit`, whose cache is here:
  /// every block below it in groups of full attention, those that a query at it sees in window
  /// groups. 0: none.
  std::int64_t cached_prefix(std::span<const prefix::Key> keys, std::int64_t limit) const;
  /// need() of an empty sequence that first takes the cached prefix of this length: what it takes
  /// besides it, and those of its blocks that are available as long as nobody holds them.
  std::vector<std::int64_t> need_after_prefix(std::span<const prefix::Key> keys,
                                              std::int64_t length, const Coverage& span) const;
  /// Makes the empty `blocks` hold, per group, the indexed blocks from the one with position
  /// `first[group]` on, as far as there is one after the other and they end at or before `end`.
  /// Returns per group the position up to which it now holds what it needs: `first[group]`, or the
  /// end of the last block taken.
  std::vector<std::int64_t> take_indexed(SequenceBlocks& blocks, std::span<const prefix::Key> keys,
                                         std::span<const std::int64_t> first, std::int64_t end);
  /// Indexes what the sequence holds of the blocks that end in (begin, end], all of them written.
  /// `whole_from`: per group, the first position that was written; empty: 0 in each. A prefix that
  /// is known in another block stays there.
  void seal(const SequenceBlocks& blocks, std::span<const prefix::Key> keys, std::int64_t begin,
            std::int64_t end, std::span<const std::int64_t> whole_from);
  /// Takes what the sequence holds out of the index: no other will get it.
  void forget(const SequenceBlocks& blocks);

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
  std::int64_t need_from(int group, std::int64_t have, const Coverage& span) const;
  void take_blocks(int group, std::int32_t count, std::int32_t hint,
                   std::vector<std::int32_t>& out);
  void add_reference(Group& group, std::int32_t block, HolderKind kind);
  void drop_reference(int index, std::int32_t block, HolderKind kind);

  PoolConfig config_;
  std::vector<Group> groups_;
  std::vector<FreedBlock> freed_;
  Generation last_generation_ = 0;
};

}  // namespace baton::kvcache
