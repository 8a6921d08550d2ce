#include "model.h"

#include "baton/handoff/core/digests.h"

namespace baton::sim {

using namespace std::chrono_literals;  // NOLINT: durations all over this file

handoff::Geometry geometry(const Options& options) {
  return {1, unit_positions * 8, {{0, {0, 2}}, {options.window, {window_layer}}}};
}

kvcache::PoolConfig pool_config(const Options& options, int blocks, int window_blocks) {
  kvcache::PoolConfig config;
  config.block_positions = block_units * unit_positions;
  config.groups = {{blocks, 0}, {window_blocks == 0 ? blocks : window_blocks, options.window}};
  config.record_freed = true;
  return config;
}

worker::NodeLimits node_limits(const Options& options) {
  worker::NodeLimits limits;
  limits.model = {vocabulary, 4096};
  limits.plan.token_budget = 64;
  limits.plan.chunk_rows = 40;
  limits.plan.layers = layers;
  limits.end_ids = {end_id};
  limits.prefill_suffix_tokens = options.prefill_suffix_tokens;
  limits.headroom_tokens = 16;
  limits.lease = 2s;
  if (options.plant == Plant::forget_tombstones) limits.tombstones = 0;
  return limits;
}

router::TableLimits table_limits() {
  router::TableLimits limits;
  limits.lease = 2s;
  limits.queue_wait = 20s;
  limits.reconnect_wait = 20s;
  limits.attempts_without_token = 1000;
  limits.handoff_wait = 5s;
  limits.token_wait = 10s;
  limits.space_wait = 60s;
  return limits;
}

TokenId token_after(std::uint64_t hash) {
  // About one in forty is the end.
  return hash % 40 == 0 ? end_id : static_cast<TokenId>(1 + hash % (vocabulary - 1));
}

std::vector<TokenId> expected_tokens(std::vector<TokenId> ids, std::int32_t max_tokens) {
  const std::size_t prompt = ids.size();
  for (std::int32_t i = 0; i < max_tokens; ++i) {
    ids.push_back(token_after(hash_of(ids, ids.size())));
    if (ids.back() == end_id) break;
  }
  return {ids.begin() + static_cast<std::ptrdiff_t>(prompt), ids.end()};
}

Digest128 digest_of_unit(const Unit& unit) {
  return handoff::content_digest(std::as_bytes(std::span(unit)));
}

}  // namespace baton::sim
