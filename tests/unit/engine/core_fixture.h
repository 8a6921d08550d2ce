// Helpers for the tests of the pure engine core.
#pragma once

#include <utility>
#include <vector>

#include "baton/engine/core/planner.h"

namespace baton::engine {

inline constexpr ModelLimits test_limits{.vocabulary = 100, .context_length = 1000};

inline std::vector<TokenId> ids_of(std::int64_t count, TokenId first = 1) {
  std::vector<TokenId> out;
  for (std::int64_t i = 0; i < count; ++i) out.push_back((first + static_cast<TokenId>(i)) % 100);
  return out;
}

inline SequenceSpec spec_of(std::int64_t prompt_length, std::vector<TokenId> generated = {}) {
  SequenceSpec spec;
  spec.prompt = ids_of(prompt_length);
  spec.generated = std::move(generated);
  spec.params.max_tokens = 50;
  return spec;
}

/// Adds a sequence that has been prefilled and decodes.
inline SequenceId add_decoding(SequenceTable& table, kvcache::BlockPools& pools,
                               std::int64_t prompt_length) {
  Sequence sequence = Sequence::for_prefill(spec_of(prompt_length), test_limits).value();
  if (!sequence.reserve(pools, prompt_length)) return SequenceId{};
  sequence.advance(prompt_length, table.next_step(), pools);
  sequence.append(99);
  return table.add(std::move(sequence));
}

inline SequenceId add_prompt(SequenceTable& table, std::int64_t prompt_length,
                             Instant arrival = Instant{}) {
  SequenceSpec spec = spec_of(prompt_length);
  spec.arrival = arrival;
  return table.add(Sequence::for_prefill(std::move(spec), test_limits).value());
}

inline kvcache::BlockPools pools_of(std::int32_t blocks) {
  return kvcache::BlockPools({.block_positions = 16, .groups = {{.blocks = blocks}}});
}

/// Every row costs 1 ms, keys nothing to speak of.
inline RateModel one_ms_a_row() {
  return RateModel(
      {.per_row = std::chrono::milliseconds(1), .per_key = std::chrono::nanoseconds(1)});
}

inline PlanLimits limits_of(std::int64_t budget) {
  return {.token_budget = budget, .chunk_rows = budget, .layers = 30};
}

}  // namespace baton::engine
