// Between the wire's values, the engine's and the pools'.
#pragma once

#include <vector>

#include "baton/engine/core/sequence.h"
#include "baton/engine/core/step_events.h"
#include "baton/handoff/core/types.h"
#include "baton/kvcache/core/block_pools.h"
#include "baton/protocol/messages.h"
#include "baton/worker/core/node_core.h"

namespace baton::worker {

/// `block_positions`: of the pools; the sequence's prefix chain is made for blocks of that size.
engine::SequenceSpec spec_of(const protocol::Work& work, const NodeLimits& limits,
                             int block_positions, Instant now);

/// The blocks of a sequence as a handoff names them, one entry a group.
std::vector<handoff::LocalBlocks> local_blocks(const kvcache::SequenceBlocks& blocks,
                                               const kvcache::BlockPools& pools);

/// Per group the position of the first unit that a handoff at `length` needs.
std::vector<std::int64_t> first_needed(std::int64_t length, const kvcache::BlockPools& pools);

/// What a decode worker tells about the blocks it holds for `length` positions. `held_to`: per
/// group the position up to which all that is needed is in them already (kvcache take_indexed()).
protocol::Grant grant_of(std::uint64_t id, std::int64_t length,
                         const kvcache::SequenceBlocks& blocks, const kvcache::BlockPools& pools,
                         const std::vector<std::int64_t>& held_to);

/// Of a sampled token; the chosen one and the likeliest.
protocol::Tokens::Logprob logprob_of(const engine::Logprobs& logprobs);

/// References to a sequence's blocks that outlive the sequence, until the transport has let go.
class Pins {
 public:
  /// Pins what is held now, was not pinned before and is needed by a handoff at `length`: what a
  /// window will have left behind by then is nothing to the transport, and would fill its pool.
  void add(const kvcache::SequenceBlocks& blocks, std::int64_t length, kvcache::BlockPools& pools,
           kvcache::HolderKind kind);
  void release(kvcache::BlockPools& pools, kvcache::HolderKind kind);

 private:
  std::vector<std::pair<int, kvcache::BlockRef>> refs_;
};

}  // namespace baton::worker
