// What the simulated model computes: a token is a hash of the ids before it, the cache of a
// position a hash of all ids up to it. Together with the sizes of the simulated workers.
#pragma once

#include <span>
#include <vector>

#include "baton/decode_node/core/decode_core.h"
#include "baton/prefill_node/core/prefill_core.h"
#include "baton/router/core/handoff_table.h"

#include "memory.h"
#include "world.h"

namespace baton::sim {

inline constexpr int block_units = 2;
inline constexpr int vocabulary = 1000;
inline constexpr TokenId end_id = 0;
inline constexpr std::uint32_t layers = 3;
inline constexpr std::uint32_t window_layer = 1;  ///< the others see everything

handoff::Geometry geometry(const Options& options);
/// `window_blocks` 0: as many as the other group has.
kvcache::PoolConfig pool_config(const Options& options, int blocks, int window_blocks);
worker::NodeLimits node_limits(const Options& options);
router::TableLimits table_limits();

/// The token that follows when the ids hash to this (memory.h, hash_of).
TokenId token_after(std::uint64_t hash);
/// What a request must deliver.
std::vector<TokenId> expected_tokens(std::vector<TokenId> ids, std::int32_t max_tokens);
Digest128 digest_of_unit(const Unit& unit);

}  // namespace baton::sim
