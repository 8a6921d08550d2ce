// Which blocks of one group hold which prefix, and which of them are kept although nobody holds
// them, in the order of their last use.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "baton/prefix/chain.h"

namespace baton::kvcache {

/// Every operation is logarithmic in the number of blocks.
class PrefixIndex {
 public:
  explicit PrefixIndex(std::int32_t blocks) : entries_(static_cast<std::size_t>(blocks)) {}

  /// The block that holds this prefix's last part.
  std::optional<std::int32_t> find(const prefix::Key& key) const;
  bool contains(std::int32_t block) const { return entry(block).key.has_value(); }

  /// `block` must not be indexed. False, and nothing done but that the block known under the key
  /// counts as used now, when there is one.
  bool add(const prefix::Key& key, std::int32_t block);
  /// `block` must be indexed.
  void remove(std::int32_t block);

  /// An indexed block is held by nobody from now on: it may be evicted.
  void idle(std::int32_t block);
  /// Somebody holds it again. Fine for a block that is not idle.
  void busy(std::int32_t block);
  bool is_idle(std::int32_t block) const { return entry(block).idle_since != 0; }
  std::int32_t idle_count() const { return static_cast<std::int32_t>(by_use_.size()); }
  /// Takes the block that has been idle longest out of the index. There must be one.
  std::int32_t evict();

 private:
  struct Entry {
    std::optional<prefix::Key> key;
    std::uint64_t idle_since = 0;  ///< 0: held
  };

  Entry& entry(std::int32_t block) { return entries_[static_cast<std::size_t>(block)]; }
  const Entry& entry(std::int32_t block) const { return entries_[static_cast<std::size_t>(block)]; }

  std::map<prefix::Key, std::int32_t> by_key_;
  std::map<std::uint64_t, std::int32_t> by_use_;  ///< idle blocks, the oldest first
  std::vector<Entry> entries_;                    ///< by block
  std::uint64_t uses_ = 0;
};

}  // namespace baton::kvcache
