#include "baton/engine/core/step.h"

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

Result<void> check_rows(const StepPlan& plan, SequenceTable& table) {
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
    if (rows.first_position != sequence->cached()) {
      return wrong_start(rows.sequence, rows.first_position, sequence->cached());
    }
    if (rows.count < 1 || rows.count > sequence->length() - rows.first_position) {
      return Error(Reason::invalid_request,
                   "step: a chunk of " + std::to_string(rows.count) + " rows of which " +
                       std::to_string(sequence->length() - rows.first_position) + " are left");
    }
  }
  return ok();
}

}  // namespace

Result<void> prepare_step(const StepPlan& plan, SequenceTable& table, kvcache::BlockPools& pools) {
  BATON_TRY(check_rows(plan, table));
  const Error no_space(Reason::no_space, "step: a cache pool has too few free blocks");
  for (const DecodeRow& row : plan.decode) {
    if (!table.find(row.sequence)->reserve(pools, row.position + 1)) return no_space;
  }
  for (const PrefillRows& rows : plan.prefill) {
    if (!table.find(rows.sequence)->reserve(pools, rows.first_position + rows.count)) {
      return no_space;
    }
  }
  return ok();
}

}  // namespace baton::engine
