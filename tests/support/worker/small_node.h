// A node so small that a test can count its blocks.
#pragma once

#include "baton/worker/core/node_core.h"

namespace baton::worker {

inline constexpr TokenId sampled_id = 7;
inline constexpr TokenId end_id = 9;

inline NodeLimits small_limits() {
  NodeLimits limits;
  limits.model = {100, 1000};
  limits.plan.token_budget = 64;
  limits.plan.chunk_rows = 32;
  limits.plan.layers = 2;
  limits.end_ids = {end_id};
  limits.requests = 8;
  limits.headroom_tokens = 16;
  limits.lease = std::chrono::seconds(5);
  return limits;
}

/// One group that sees everything, blocks of one unit.
inline kvcache::PoolConfig small_pools(int blocks) {
  kvcache::PoolConfig config;
  config.block_positions = 16;
  config.groups = {{blocks, 0}};
  return config;
}

}  // namespace baton::worker
