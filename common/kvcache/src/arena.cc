#include "baton/kvcache/arena.h"

#include <limits>
#include <string>
#include <utility>

#include "baton/base/check.h"

namespace baton::kvcache {
namespace {

// Keys and values.
constexpr std::size_t parts = 2;

/// layers * parts * blocks * block_bytes, or nothing when the product does not fit (R13).
Result<std::size_t> group_bytes(const ArenaGroup& group, std::size_t block_bytes) {
  if (group.layers <= 0 || group.blocks <= 0 || block_bytes == 0) {
    return Error(Reason::bad_config, "cache: a layer group needs at least one layer and one block");
  }
  std::size_t bytes = block_bytes;
  for (const std::size_t factor :
       {static_cast<std::size_t>(group.layers), parts, static_cast<std::size_t>(group.blocks)}) {
    if (bytes > std::numeric_limits<std::size_t>::max() / factor) {
      return Error(Reason::bad_config, "cache: the size of a layer group overflows; ask for less");
    }
    bytes *= factor;
  }
  return bytes;
}

}  // namespace

Result<Arena> Arena::create(ArenaConfig config) {
  Arena arena;
  arena.config_ = std::move(config);
  if (arena.config_.block_units <= 0 || arena.config_.groups.empty()) {
    return Error(Reason::bad_config, "cache: block_units and the number of groups are at least 1");
  }
  for (std::size_t g = 0; g < arena.config_.groups.size(); ++g) {
    BATON_ASSIGN(const std::size_t bytes,
                 group_bytes(arena.config_.groups[g], arena.block_bytes()));
    BATON_ASSIGN(auto memory,
                 tensor::SharedBuffer::create("baton-cache-" + std::to_string(g), bytes));
    arena.memory_.push_back(std::move(memory));
  }
  return arena;
}

std::byte* Arena::block(int group, int layer, tensor::KvPart part, std::int32_t block) {
  BATON_CHECK(group >= 0 && static_cast<std::size_t>(group) < config_.groups.size());
  const ArenaGroup& shape = config_.groups[static_cast<std::size_t>(group)];
  BATON_CHECK(layer >= 0 && layer < shape.layers);
  BATON_CHECK(block >= 0 && block < shape.blocks);
  const std::size_t plane =
      static_cast<std::size_t>(layer) * parts + static_cast<std::size_t>(part);
  const std::size_t index =
      plane * static_cast<std::size_t>(shape.blocks) + static_cast<std::size_t>(block);
  return memory(group).data() + index * block_bytes();
}

}  // namespace baton::kvcache
