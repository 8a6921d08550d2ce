#include "baton/kvcache/core/block_pools.h"

#include <algorithm>
#include <utility>

#include "baton/base/check.h"

#include "pool_group.h"

namespace baton::kvcache {

BlockPools::BlockPools(PoolConfig config) : config_(std::move(config)) {
  BATON_CHECK(config_.block_positions > 0 && !config_.groups.empty());
  for (const PoolGroup& group : config_.groups) {
    BATON_CHECK(group.blocks > 0 && group.window >= 0);
    groups_.emplace_back(group);
  }
}

BlockPools::~BlockPools() = default;
BlockPools::BlockPools(BlockPools&&) noexcept = default;
BlockPools& BlockPools::operator=(BlockPools&&) noexcept = default;

BlockPools::Group& BlockPools::at(int group) {
  BATON_CHECK(group >= 0 && group < groups());
  return groups_[static_cast<std::size_t>(group)];
}

const BlockPools::Group& BlockPools::at(int group) const {
  BATON_CHECK(group >= 0 && group < groups());
  return groups_[static_cast<std::size_t>(group)];
}

std::int64_t BlockPools::blocks_for(std::int64_t begin, std::int64_t end) const {
  BATON_CHECK(begin >= 0);
  if (end <= begin) return 0;
  const std::int64_t size = config_.block_positions;
  return (end + size - 1) / size - begin / size;
}

std::int64_t BlockPools::first_visible(int group, std::int64_t next) const {
  BATON_CHECK(group >= 0 && group < groups());
  const std::int64_t window = config_.groups[static_cast<std::size_t>(group)].window;
  return window == 0 ? 0 : std::max<std::int64_t>(0, next - window + 1);
}

std::int64_t BlockPools::end_in(int group, const Coverage& span) const {
  const bool full = config_.groups[static_cast<std::size_t>(group)].window == 0;
  return full ? std::max(span.end, span.reserve_end) : span.end;
}

/// Blocks that a sequence that has those below position `have` takes for the span.
std::int64_t BlockPools::need_from(int group, std::int64_t have, const Coverage& span) const {
  const std::int64_t begin = std::max(have, std::min(first_visible(group, span.next), span.end));
  return blocks_for(begin, end_in(group, span));
}

std::vector<std::int64_t> BlockPools::need(const SequenceBlocks& blocks,
                                           const Coverage& span) const {
  std::vector<std::int64_t> out;
  for (int g = 0; g < groups(); ++g) {
    const std::int64_t have =
        blocks.empty() ? 0 : static_cast<std::int64_t>(blocks.group(g).size());
    out.push_back(need_from(g, have * config_.block_positions, span));
  }
  return out;
}

bool BlockPools::could_fit(std::int64_t positions, std::int64_t chunk) const {
  for (const PoolGroup& group : config_.groups) {
    std::int64_t peak = blocks_for(0, positions);
    if (group.window > 0) {
      // A chunk sees window - 1 positions before itself; at the worst alignment their first and
      // last positions stand alone in a block.
      const std::int64_t span = group.window - 1 + chunk;
      peak = std::min(peak, (span + config_.block_positions - 2) / config_.block_positions + 1);
    }
    if (peak > group.blocks) return false;
  }
  return true;
}

std::int32_t BlockPools::available_blocks(int group) const {
  return at(group).free.count() + at(group).index.idle_count();
}

double BlockPools::usage(int group) const {
  const auto total = static_cast<double>(at(group).blocks.size());
  return (total - available_blocks(group)) / total;
}

PoolCounts BlockPools::counts(int group) const {
  const Group& pool = at(group);
  return {.total = static_cast<std::int32_t>(pool.blocks.size()),
          .free = pool.free.count(),
          .cached = pool.index.idle_count(),
          .references = pool.references,
          .quarantined = pool.quarantined};
}

bool BlockPools::is_indexed(int group, std::int32_t block) const {
  return at(group).index.contains(block);
}

std::vector<std::int64_t> BlockPools::freed_by_release(const SequenceBlocks& blocks) const {
  std::vector<std::int64_t> out(groups_.size(), 0);
  if (blocks.empty()) return out;
  for (int g = 0; g < groups(); ++g) {
    const BlockTable& table = blocks.group(g);
    for (std::size_t i = table.first_held(); i < table.size(); ++i) {
      const auto& references = at(g).state(table.blocks_[i]).references;
      const bool alone = references[0] == 1 && references[1] == 0 && references[2] == 0;
      if (alone) ++out[static_cast<std::size_t>(g)];
    }
  }
  return out;
}

void BlockPools::add_reference(Group& group, std::int32_t block, HolderKind kind) {
  BlockState& state = group.state(block);
  group.index.busy(block);
  group.quarantined -= state.quarantined() ? 1 : 0;
  ++state.references[static_cast<std::size_t>(kind)];
  ++group.references[static_cast<std::size_t>(kind)];
  group.quarantined += state.quarantined() ? 1 : 0;
}

void BlockPools::drop_reference(int index, std::int32_t block, HolderKind kind) {
  Group& group = at(index);
  BlockState& state = group.state(block);
  BATON_CHECK(state.references[static_cast<std::size_t>(kind)] > 0);
  group.quarantined -= state.quarantined() ? 1 : 0;
  --state.references[static_cast<std::size_t>(kind)];
  --group.references[static_cast<std::size_t>(kind)];
  group.quarantined += state.quarantined() ? 1 : 0;
  if (state.held()) return;
  if (group.index.contains(block)) return group.index.idle(block);
  group.free.give(block);
  if (config_.record_freed) freed_.push_back({index, block});
}

/// Appends `count` (<= available_blocks()) blocks to `out`.
void BlockPools::take_blocks(int group, std::int32_t count, std::int32_t hint,
                             std::vector<std::int32_t>& out) {
  Group& pool = at(group);
  while (pool.free.count() < count) {
    const std::int32_t block = pool.index.evict();
    pool.free.give(block);
    if (config_.record_freed) freed_.push_back({group, block});
  }
  pool.free.take(count, hint, out);
}

bool BlockPools::extend(SequenceBlocks& blocks, const Coverage& span) {
  BATON_CHECK(span.next >= 0 && span.end >= span.next);
  drop_invisible(blocks, span.next);
  const std::vector<std::int64_t> wanted = need(blocks, span);
  for (int g = 0; g < groups(); ++g) {
    if (wanted[static_cast<std::size_t>(g)] > available_blocks(g)) return false;
  }
  if (blocks.empty()) blocks.groups_.resize(groups_.size());
  const auto takes = [](std::int64_t count) { return count > 0; };
  if (std::any_of(wanted.begin(), wanted.end(), takes)) ++last_generation_;
  for (int g = 0; g < groups(); ++g) {
    BlockTable& table = blocks.groups_[static_cast<std::size_t>(g)];
    const auto count = static_cast<std::int32_t>(wanted[static_cast<std::size_t>(g)]);
    const auto size = static_cast<std::size_t>(blocks_for(0, end_in(g, span)));
    if (size <= table.size()) continue;
    if (table.first_held_ == table.size())
      table.first_held_ = size - static_cast<std::size_t>(count);
    const std::int32_t hint = table.size() > 0 ? table.blocks_.back() + 1 : -1;
    table.blocks_.resize(size - static_cast<std::size_t>(count), -1);
    take_blocks(g, count, hint, table.blocks_);
    table.generations_.resize(size, last_generation_);
    for (std::size_t i = size - static_cast<std::size_t>(count); i < size; ++i) {
      at(g).state(table.blocks_[i]).generation = last_generation_;
      add_reference(at(g), table.blocks_[i], HolderKind::sequence);
    }
  }
  return true;
}

void BlockPools::drop_invisible(SequenceBlocks& blocks, std::int64_t next) {
  if (blocks.empty()) return;
  for (int g = 0; g < groups(); ++g) {
    BlockTable& table = blocks.groups_[static_cast<std::size_t>(g)];
    const std::size_t keep = std::min(
        table.size(), static_cast<std::size_t>(first_visible(g, next) / config_.block_positions));
    for (; table.first_held_ < keep; ++table.first_held_) {
      drop_reference(g, std::exchange(table.blocks_[table.first_held_], -1), HolderKind::sequence);
    }
  }
}

void BlockPools::release(SequenceBlocks& blocks) {
  for (std::size_t g = 0; g < blocks.groups_.size(); ++g) {
    // Backwards: a prefix is worth more than what continues it, so it is evicted later.
    const BlockTable& table = blocks.groups_[g];
    for (std::size_t i = table.size(); i > table.first_held_; --i) {
      drop_reference(static_cast<int>(g), table.blocks_[i - 1], HolderKind::sequence);
    }
  }
  blocks.groups_.clear();
}

bool BlockPools::replace(SequenceBlocks& blocks, int group, std::size_t index) {
  Group& pool = at(group);
  BATON_CHECK(!blocks.empty());
  BlockTable& table = blocks.groups_[static_cast<std::size_t>(group)];
  BATON_CHECK(index >= table.first_held() && index < table.size());
  if (available_blocks(group) == 0) return false;
  const std::int32_t hint = index > table.first_held() ? table.blocks_[index - 1] + 1 : -1;
  std::vector<std::int32_t> fresh;
  take_blocks(group, 1, hint, fresh);
  const std::int32_t old = std::exchange(table.blocks_[index], fresh.front());
  table.generations_[index] = ++last_generation_;
  pool.state(fresh.front()).generation = last_generation_;
  add_reference(pool, fresh.front(), HolderKind::sequence);
  drop_reference(group, old, HolderKind::sequence);
  return true;
}

Result<void> BlockPools::check(int group, const BlockRef& ref) const {
  if (group < 0 || group >= groups() || ref.block < 0 ||
      static_cast<std::size_t>(ref.block) >= at(group).blocks.size()) {
    return Error(Reason::out_of_range, "cache: group " + std::to_string(group) + ", block " +
                                           std::to_string(ref.block) + " does not exist");
  }
  const BlockState& state = at(group).state(ref.block);
  if (!state.held() || state.generation != ref.generation) {
    return Error(Reason::stale_generation,
                 "cache: block " + std::to_string(ref.block) + " named in generation " +
                     std::to_string(ref.generation) + ", now " +
                     (state.held() ? std::to_string(state.generation) : std::string("free")));
  }
  return ok();
}

void BlockPools::hold(int group, const BlockRef& ref, HolderKind kind) {
  BATON_CHECK(kind != HolderKind::sequence);
  BATON_CHECK(check(group, ref).has_value());
  add_reference(at(group), ref.block, kind);
}

void BlockPools::unhold(int group, const BlockRef& ref, HolderKind kind) {
  BATON_CHECK(kind != HolderKind::sequence);
  BATON_CHECK(check(group, ref).has_value());
  drop_reference(group, ref.block, kind);
}

std::vector<FreedBlock> BlockPools::take_freed() { return std::exchange(freed_, {}); }

}  // namespace baton::kvcache
