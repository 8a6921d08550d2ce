// The memory of a worker's cache: one allocation per layer group, cut into blocks. Knows addresses,
// not who owns a block (that is core/).
//
// Order in memory: [layer of the group][K, V][block][unit of the block]. Neighbouring blocks of one
// layer are neighbours in memory, so a run of blocks is one extent per layer and part.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "baton/base/result.h"
#include "baton/tensor/shared_buffer.h"
#include "baton/tensor/unit_layout.h"

namespace baton::kvcache {

struct ArenaGroup {
  int layers = 0;
  std::int32_t blocks = 0;
};

struct ArenaConfig {
  tensor::UnitLayout unit;
  int block_units = 4;  ///< positions of a block / 16
  std::vector<ArenaGroup> groups;
};

class Arena {
 public:
  static Result<Arena> create(ArenaConfig config);

  const ArenaConfig& config() const { return config_; }
  std::size_t block_bytes() const {
    return config_.unit.unit_bytes() * static_cast<std::size_t>(config_.block_units);
  }

  /// First byte of a block's units of one layer (index within its group) and part.
  std::byte* block(int group, int layer, tensor::KvPart part, std::int32_t block);

  /// The whole memory of a group, for registration with a transport.
  tensor::SharedBuffer& memory(int group) { return memory_[static_cast<std::size_t>(group)]; }

 private:
  Arena() = default;

  ArenaConfig config_;
  std::vector<tensor::SharedBuffer> memory_;
};

}  // namespace baton::kvcache
