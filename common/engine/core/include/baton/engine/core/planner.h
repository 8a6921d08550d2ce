// What the next step computes: pure functions of the sequences, the pools and the measured rates.
//
// Decode: every sequence that decodes has one row (continuous batching); of more than a step may
// have, those that waited longest go first. Prefill: ordered by deadline, then arrival; several
// prompts share a step, long ones are cut, and while others wait one prompt gets at most half of a
// step's rows, so that short prompts pass a long one. Beside rows that decode, prompts get what the
// step limit leaves, and at least a quarter of what those rows take; where that is no row, the two
// take turns. Memory: when a decoding sequence cannot grow, the youngest sequence that holds blocks
// and is younger than it is preempted; if there is none it waits, and another one has its row. When
// several hold blocks and none can move, the one that would start last gives way. A prompt starts
// only when all of it fits (HNG-14) beside one more block for each decoding sequence, and prompts
// start in order, in a step that preempts nobody. A prompt that starts takes what the prefix cache
// holds of it and is computed from there on.
#pragma once

#include <cstdint>
#include <vector>

#include "baton/base/time.h"
#include "baton/engine/core/rate_model.h"
#include "baton/engine/core/sequence.h"
#include "baton/engine/core/step.h"
#include "baton/kvcache/core/block_pools.h"

namespace baton::engine {

struct PlanLimits {
  /// Long for any step, and short enough to be multiplied by a number of layers.
  static constexpr Duration no_limit = std::chrono::hours(24);

  std::int64_t token_budget = 2048;  ///< most rows of a step
  /// Most rows of one sequence's chunk; the tests' way to force chunks.
  std::int64_t chunk_rows = 2048;
  /// A step with rows of prompts that streams are in or wait for.
  Duration shared_step = std::chrono::milliseconds(100);
  Duration layer = std::chrono::milliseconds(100);  ///< one layer of any step
  int layers = 1;
};

struct PlanDecision {
  StepPlan step;
  /// To be preempted (Sequence::preempt) before the step is prepared.
  std::vector<SequenceId> preempt;
  /// Would not fit with the pools to themselves: to be ended with Reason::cannot_grow.
  std::vector<SequenceId> cannot_grow;
};

/// Prefill rows only: the prefill node's plan.
PlanDecision plan_prefill(const SequenceTable& table, const kvcache::BlockPools& pools,
                          const RateModel& rates, const PlanLimits& limits);

/// Decode rows, then prefill chunks in what the limit of shared steps leaves, or a quarter more
/// than the decode rows take: the decode node's plan (its prefills are recomputed victims and local
/// prompts) and that of one process alone. Where that is not one row, the two take turns.
PlanDecision plan_mixed(const SequenceTable& table, const kvcache::BlockPools& pools,
                        const RateModel& rates, const PlanLimits& limits);

}  // namespace baton::engine
