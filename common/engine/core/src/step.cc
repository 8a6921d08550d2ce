#include "baton/engine/core/step.h"

#include <map>
#include <set>
#include <string>

namespace baton::engine {
namespace {

Result<Sequence*> sequence_in(Phase phase, SequenceId id, SequenceTable& table,
                              std::set<SequenceId>& listed) {
  const std::string name = "step: sequence " + std::to_string(id.value());
  Sequence* sequence = table.find(id);
  if (sequence == nullptr) return Error(Reason::invalid_request, name + " is unknown");
  if (!listed.insert(id).second) return Error(Reason::invalid_request, name + " is listed twice");
  if (sequence->phase() != phase) {
    return Error(Reason::invalid_request, name + " is not in the phase that it is planned for");
  }
  return sequence;
}

Error wrong_start(SequenceId id, std::int64_t position, std::int64_t cached) {
  return {Reason::length_mismatch, "step: sequence " + std::to_string(id.value()) +
                                       " is planned at position " + std::to_string(position) +
                                       ", its cache holds " + std::to_string(cached)};
}

/// Where each sequence that takes a cached prefix begins.
Result<std::map<SequenceId, std::int64_t>> check_hits(const StepPlan& plan, SequenceTable& table,
                                                      const kvcache::BlockPools& pools) {
  std::map<SequenceId, std::int64_t> starts;
  std::set<SequenceId> listed;
  for (const PrefixHit& hit : plan.hits) {
    BATON_ASSIGN(const Sequence* sequence,
                 sequence_in(Phase::prefill, hit.sequence, table, listed));
    const std::int64_t cached = sequence->cached_prefix(pools);
    if (hit.positions < 1 || hit.positions > cached) {
      return Error(Reason::length_mismatch, "step: a prefix of " + std::to_string(hit.positions) +
                                                " positions of which " + std::to_string(cached) +
                                                " are cached");
    }
    starts[hit.sequence] = hit.positions;
  }
  return starts;
}

Result<void> check_rows(const StepPlan& plan, SequenceTable& table,
                        std::map<SequenceId, std::int64_t> starts) {
  std::set<SequenceId> listed;
  for (const DecodeRow& row : plan.decode) {
    BATON_ASSIGN(const Sequence* sequence, sequence_in(Phase::decode, row.sequence, table, listed));
    const bool last_id_is_next = sequence->cached() == sequence->length() - 1;
    if (row.position != sequence->cached() || !last_id_is_next) {
      return wrong_start(row.sequence, row.position, sequence->cached());
    }
  }
  for (const PrefillRows& rows : plan.prefill) {
    BATON_ASSIGN(const Sequence* sequence,
                 sequence_in(Phase::prefill, rows.sequence, table, listed));
    const auto hit = starts.extract(rows.sequence);
    const std::int64_t cached = hit.empty() ? sequence->cached() : hit.mapped();
    if (rows.first_position != cached) {
      return wrong_start(rows.sequence, rows.first_position, cached);
    }
    if (rows.count < 1 || rows.count > sequence->length() - rows.first_position) {
      return Error(Reason::invalid_request,
                   "step: a chunk of " + std::to_string(rows.count) + " rows of which " +
                       std::to_string(sequence->length() - rows.first_position) + " are left");
    }
  }
  if (!starts.empty()) {
    return Error(Reason::invalid_request, "step: a cached prefix for a sequence without rows");
  }
  return ok();
}

}  // namespace

Result<void> prepare_step(const StepPlan& plan, SequenceTable& table, kvcache::BlockPools& pools) {
  BATON_ASSIGN(auto starts, check_hits(plan, table, pools));
  BATON_TRY(check_rows(plan, table, std::move(starts)));
  // Before any other block is taken: that could evict them.
  for (const PrefixHit& hit : plan.hits) {
    table.find(hit.sequence)->take_prefix(pools, hit.positions);
  }
  const Error no_space(Reason::no_space, "step: a cache pool has too few free blocks");
  for (const DecodeRow& row : plan.decode) {
    if (!table.find(row.sequence)->reserve(pools, row.position + 1)) return no_space;
  }
  for (const PrefillRows& rows : plan.prefill) {
    if (!table.find(rows.sequence)->reserve(pools, rows.first_position + rows.count)) {
      return no_space;
    }
  }
  table.prepared_step(!plan.decode.empty());
  return ok();
}

}  // namespace baton::engine
