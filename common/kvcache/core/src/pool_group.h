// What BlockPools knows of one layer group.
#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include "baton/kvcache/core/block_pools.h"

#include "free_runs.h"
#include "prefix_index.h"

namespace baton::kvcache {

struct BlockState {
  Generation generation = 0;
  std::array<std::int32_t, holder_kinds> references{};

  bool held() const {
    return std::any_of(references.begin(), references.end(), [](auto n) { return n > 0; });
  }
  bool quarantined() const {
    return references[static_cast<std::size_t>(HolderKind::open_receive)] > 0 &&
           references[static_cast<std::size_t>(HolderKind::sequence)] == 0 &&
           references[static_cast<std::size_t>(HolderKind::send_pin)] == 0;
  }
};

struct BlockPools::Group {
  explicit Group(const PoolGroup& config)
      : free(config.blocks),
        index(config.blocks),
        blocks(static_cast<std::size_t>(config.blocks)) {}

  BlockState& state(std::int32_t block) { return blocks[static_cast<std::size_t>(block)]; }
  const BlockState& state(std::int32_t block) const {
    return blocks[static_cast<std::size_t>(block)];
  }

  FreeRuns free;
  PrefixIndex index;
  std::vector<BlockState> blocks;
  std::array<std::int64_t, holder_kinds> references{};
  std::int32_t quarantined = 0;
};

}  // namespace baton::kvcache
