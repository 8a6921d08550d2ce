// What one step computes, and what it does to the sequences. The two kinds of rows are two types:
// a prefill chunk has a count, a decode row has none because it is always one row.
#pragma once

#include <cstdint>
#include <vector>

#include "baton/base/result.h"
#include "baton/base/time.h"
#include "baton/engine/core/sequence.h"

namespace baton::engine {

/// Rows [first_position, first_position + count) of a sequence's prompt and generated ids.
struct PrefillRows {
  SequenceId sequence;
  std::int64_t first_position = 0;
  std::int64_t count = 0;

  friend bool operator==(const PrefillRows&, const PrefillRows&) = default;
};

/// A sequence that starts here takes so many positions from the prefix cache; its rows begin there.
struct PrefixHit {
  SequenceId sequence;
  std::int64_t positions = 0;

  friend bool operator==(const PrefixHit&, const PrefixHit&) = default;
};

/// One row: the last generated id at `position`, which is the cached length. After it the cache
/// holds position + 1.
struct DecodeRow {
  SequenceId sequence;
  std::int64_t position = 0;

  friend bool operator==(const DecodeRow&, const DecodeRow&) = default;
};

/// What a step's duration depends on.
struct StepShape {
  std::int64_t rows = 0;
  std::int64_t keys = 0;  ///< keys that its rows see, summed over rows

  void add(std::int64_t first_position, std::int64_t count) {
    rows += count;
    keys += count * first_position + count * (count + 1) / 2;
  }

  friend bool operator==(const StepShape&, const StepShape&) = default;
};

struct StepPlan {
  std::vector<DecodeRow> decode{};
  std::vector<PrefillRows> prefill{};
  std::vector<PrefixHit> hits{};
  StepShape shape{};
  Duration predicted{};

  bool empty() const { return decode.empty() && prefill.empty(); }
};

/// Checks every row against its sequence, then takes the cached prefixes, then the blocks that the
/// step writes. Fails, with nothing changed, when a sequence is unknown, listed twice or in the
/// other phase (Reason::invalid_request), or when a prefix is not cached or a row does not start
/// where the cached length or its prefix ends (Reason::length_mismatch); with Reason::no_space when
/// a pool is short (blocks taken for earlier rows stay with their sequences).
Result<void> prepare_step(const StepPlan& plan, SequenceTable& table, kvcache::BlockPools& pools);

}  // namespace baton::engine
