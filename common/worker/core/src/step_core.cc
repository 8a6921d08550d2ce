#include "baton/worker/core/step_core.h"

#include <algorithm>
#include <utility>

namespace baton::worker {

StepCore::StepCore(const Phase& phase, NodeLimits limits, kvcache::PoolConfig pools)
    : phase_(phase), limits_(std::move(limits)), pools_(std::move(pools)) {}

std::vector<NodeEffect> StepCore::take_effects() { return std::exchange(effects_, {}); }

void StepCore::send(const handoff::OwnerRef& to, protocol::Message message) {
  add(ToOwner{to, std::move(message)});
}

void StepCore::refuse(const handoff::OwnerRef& to, const protocol::AttemptKey& key,
                      const Error& error) {
  send(to, protocol::Refused{key, error.reason(), error.message(), phase_.retry_after_ms});
  count(Countable::request_refused, error.reason());
}

void StepCore::add_sequence(Job& job, engine::Sequence sequence) {
  const std::int64_t hit = sequence.cached_prefix(pools_);
  job.sequence = table_.add(std::move(sequence));
  by_sequence_[*job.sequence] = {job.key.request, hit};
}

void StepCore::give_back_sequence(Job& job) {
  if (!job.sequence) return;
  const engine::SequenceId id = *std::exchange(job.sequence, std::nullopt);
  by_sequence_.erase(id);
  const auto is_it = [id](const auto& rows) { return rows.sequence == id; };
  const bool in_step = std::any_of(step_.decode.begin(), step_.decode.end(), is_it) ||
                       std::any_of(step_.prefill.begin(), step_.prefill.end(), is_it);
  if (in_step) {
    leaving_.insert(id);
  } else {
    table_.remove(id, pools_);
  }
}

std::optional<RequestId> StepCore::request_of(engine::SequenceId sequence) const {
  const auto found = by_sequence_.find(sequence);
  if (found == by_sequence_.end()) return std::nullopt;
  return found->second.request;
}

engine::StepPlan StepCore::end_step() {
  for (engine::SequenceId id : std::exchange(leaving_, {})) table_.remove(id, pools_);
  return std::exchange(step_, {});
}

void StepCore::pin(std::uint64_t handle, const kvcache::SequenceBlocks& blocks,
                   std::int64_t length) {
  pins_[handle].add(blocks, length, pools_, phase_.pin);
}

void StepCore::unpin(std::uint64_t handle) {
  const auto found = pins_.find(handle);
  if (found == pins_.end()) return;
  found->second.release(pools_, phase_.pin);
  pins_.erase(found);
}

protocol::Load StepCore::base_load() const {
  protocol::Load load;
  const auto positions = static_cast<std::int64_t>(pools_.config().block_positions);
  load.free_tokens = static_cast<std::int64_t>(pools_.available_blocks(0)) * positions;
  load.capacity_tokens = static_cast<std::int64_t>(pools_.config().groups[0].blocks) * positions;
  engine::StepShape rest;
  for (const auto& [id, sequence] : table_.all()) {
    if (sequence.phase() != engine::Phase::prefill) continue;
    const auto known = by_sequence_.find(id);
    const std::int64_t hit = known == by_sequence_.end() ? 0 : known->second.hit;
    const std::int64_t from = std::max(sequence.cached(), hit);
    rest.add(from, sequence.length() - from);
  }
  load.backlog_tokens = rest.rows;
  if (rest.rows > 0) load.backlog = rates_.predict(rest);
  return load;
}

}  // namespace baton::worker
