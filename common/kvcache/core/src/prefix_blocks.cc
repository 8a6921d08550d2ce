// The part of BlockPools that finds, takes and indexes whole blocks by their prefix's key.
#include <algorithm>

#include "baton/base/check.h"

#include "pool_group.h"

namespace baton::kvcache {
namespace {

std::size_t index_of(std::int64_t position, int block_positions) {
  return static_cast<std::size_t>(position / block_positions);
}

}  // namespace

std::int64_t BlockPools::cached_prefix(std::span<const prefix::Key> keys,
                                       std::int64_t limit) const {
  const int size = config_.block_positions;
  std::size_t most = std::min(keys.size(), index_of(std::max<std::int64_t>(limit, 0), size));
  // present[g][i]: how many blocks up to and with block i stand in the index one after the other.
  std::vector<std::vector<std::size_t>> present(groups_.size());
  for (int g = 0; g < groups(); ++g) {
    const bool full = config_.groups[static_cast<std::size_t>(g)].window == 0;
    std::size_t in_a_row = 0;
    for (std::size_t i = 0; i < most; ++i) {
      const bool here = at(g).index.find(keys[i]).has_value();
      if (full && !here) most = i;
      in_a_row = here ? in_a_row + 1 : 0;
      present[static_cast<std::size_t>(g)].push_back(in_a_row);
    }
  }
  for (; most > 0; --most) {
    const std::int64_t length = static_cast<std::int64_t>(most) * size;
    bool whole = true;
    for (int g = 0; g < groups(); ++g) {
      const std::size_t needed = most - index_of(first_visible(g, length), size);
      whole = whole && present[static_cast<std::size_t>(g)][most - 1] >= needed;
    }
    if (whole) return length;
  }
  return 0;
}

std::vector<std::int64_t> BlockPools::need_after_prefix(std::span<const prefix::Key> keys,
                                                        std::int64_t length,
                                                        const Coverage& span) const {
  std::vector<std::int64_t> out;
  const std::size_t end = index_of(length, config_.block_positions);
  for (int g = 0; g < groups(); ++g) {
    std::int64_t count = need_from(g, length, span);
    for (std::size_t i = index_of(first_visible(g, length), config_.block_positions); i < end;
         ++i) {
      const auto block = at(g).index.find(keys[i]);
      BATON_CHECK(block.has_value());
      if (at(g).index.is_idle(*block)) ++count;
    }
    out.push_back(count);
  }
  return out;
}

std::vector<std::int64_t> BlockPools::take_indexed(SequenceBlocks& blocks,
                                                   std::span<const prefix::Key> keys,
                                                   std::span<const std::int64_t> first,
                                                   std::int64_t end) {
  BATON_CHECK(blocks.empty() && first.size() == groups_.size());
  const std::size_t most = std::min(keys.size(), index_of(end, config_.block_positions));
  std::vector<std::int64_t> held(first.begin(), first.end());
  for (int g = 0; g < groups(); ++g) {
    BlockTable table;
    const std::size_t begin = index_of(first[static_cast<std::size_t>(g)], config_.block_positions);
    std::size_t i = begin;
    for (; i < most; ++i) {
      const auto block = at(g).index.find(keys[i]);
      if (!block) break;
      table.blocks_.resize(i, -1);
      table.blocks_.push_back(*block);
      table.generations_.resize(i + 1);
      table.generations_[i] = at(g).state(*block).generation;
      add_reference(at(g), *block, HolderKind::sequence);
    }
    if (i == begin) continue;
    table.first_held_ = begin;
    held[static_cast<std::size_t>(g)] = static_cast<std::int64_t>(i) * config_.block_positions;
    if (blocks.empty()) blocks.groups_.resize(groups_.size());
    blocks.groups_[static_cast<std::size_t>(g)] = std::move(table);
  }
  return held;
}

void BlockPools::seal(const SequenceBlocks& blocks, std::span<const prefix::Key> keys,
                      std::int64_t begin, std::int64_t end,
                      std::span<const std::int64_t> whole_from) {
  const std::size_t last = std::min(keys.size(), index_of(end, config_.block_positions));
  for (std::size_t g = 0; g < blocks.groups(); ++g) {
    const BlockTable& table = blocks.groups_[g];
    PrefixIndex& index = groups_[g].index;
    std::size_t i = std::max(index_of(begin, config_.block_positions), table.first_held_);
    for (; i < std::min(last, table.size()); ++i) {
      const std::int64_t position = static_cast<std::int64_t>(i) * config_.block_positions;
      const bool whole = whole_from.empty() || position >= whole_from[g];
      if (whole && !index.contains(table.blocks_[i])) index.add(keys[i], table.blocks_[i]);
    }
  }
}

void BlockPools::forget(const SequenceBlocks& blocks) {
  for (std::size_t g = 0; g < blocks.groups(); ++g) {
    const BlockTable& table = blocks.groups_[g];
    for (std::size_t i = table.first_held_; i < table.size(); ++i) {
      PrefixIndex& index = groups_[g].index;
      if (index.contains(table.blocks_[i])) index.remove(table.blocks_[i]);
    }
  }
}

}  // namespace baton::kvcache
