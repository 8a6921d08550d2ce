// Content digests of whole blocks, kept until the block's next life is: what a grant holds is
// compared with a commit without being read again. 32 bytes a unit pair of each layer.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "baton/handoff/core/types.h"

namespace baton::handoff {

/// Of one block: [layer in the group * units of a block + unit in the block].
struct BlockDigests {
  std::vector<Digest128> k;
  std::vector<Digest128> v;
};

/// At most one entry a block: a later generation takes the place of an earlier one.
class SealedDigests {
 public:
  /// The block is whole and will not be written in this generation.
  void keep(const BlockName& name, BlockDigests digests) {
    blocks_[{name.group, name.block}] = Entry{name.generation, std::move(digests)};
  }
  const BlockDigests* find(const BlockName& name) const {
    const auto found = blocks_.find({name.group, name.block});
    const bool known = found != blocks_.end() && found->second.generation == name.generation;
    return known ? &found->second.digests : nullptr;
  }

 private:
  struct Entry {
    std::uint32_t generation = 0;
    BlockDigests digests;
  };
  std::map<std::pair<std::uint32_t, std::int32_t>, Entry> blocks_;
};

}  // namespace baton::handoff
