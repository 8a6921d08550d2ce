#include "baton/prefill_node/core/prefill_core.h"

#include <algorithm>
#include <utility>

#include "baton/base/check.h"

namespace baton::prefill_node {

using handoff::OwnerRef;
using protocol::AttemptKey;
using protocol::FinishReason;
using worker::Countable;
using worker::Counted;

PrefillCore::PrefillCore(worker::NodeLimits limits, kvcache::PoolConfig pools)
    : limits_(std::move(limits)), pools_(std::move(pools)), tombstones_(limits_.tombstones) {}

std::vector<worker::NodeEffect> PrefillCore::take_effects() { return std::exchange(effects_, {}); }

// ---- messages ----

void PrefillCore::message(const OwnerRef& from, const protocol::Message& message, Instant arrived,
                          Instant now) {
  if (!owners_.accept(from, limits_.lease, now)) return;
  if (const auto* prefill = std::get_if<protocol::Prefill>(&message)) {
    return on(from, *prefill, arrived, now);
  }
  std::visit([&](const auto& each) { on(from, each, now); }, message);
}

void PrefillCore::owner_connected(const OwnerRef& owner, Instant now) {
  if (const auto before = owners_.heard_from(owner, limits_.lease, now)) {
    end_all_of(*before, Countable::request_cancelled, now);
  }
  for (const auto& [request, job] : jobs_) {
    if (job.owner == owner) repeat(job);
  }
}

void PrefillCore::repeat(const Job& job) {
  if (job.tokens) send(job.owner, *job.tokens);
  if (job.outcome) send(job.owner, *job.outcome);
}

void PrefillCore::on(const OwnerRef& from, const protocol::Heartbeat& message, Instant now) {
  owners_.heard_from(from, std::chrono::milliseconds(message.lease_ms), now);
}

Result<engine::Sequence> PrefillCore::admit(const protocol::Prefill& message, Instant now) const {
  if (draining_) return Error(Reason::draining, "the prefill worker is shutting down");
  const std::int64_t length = message.work.length();
  if (!pools_.could_fit(length, limits_.plan.chunk_rows)) {
    return Error(Reason::prompt_exceeds_pool,
                 "a prompt of " + std::to_string(length) + " tokens is larger than the cache");
  }
  if (jobs_.size() >= limits_.requests || load().backlog_tokens > limits_.backlog_tokens) {
    return Error(Reason::overloaded, "the prefill worker's queue is full");
  }
  return engine::Sequence::for_prefill(
      worker::spec_of(message.work, limits_, pools_.config().block_positions, now), limits_.model);
}

void PrefillCore::refuse(const OwnerRef& to, const AttemptKey& key, const Error& error) {
  constexpr std::int64_t retry_after_ms = 200;
  send(to, protocol::Refused{key, error.reason(), error.message(), retry_after_ms});
  effects_.push_back(Counted{Countable::request_refused, error.reason(), {}});
}

void PrefillCore::on(const OwnerRef& from, const protocol::Prefill& message, Instant arrived,
                     Instant now) {
  const RequestId request = message.key.request;
  const auto found = jobs_.find(request);
  if (found != jobs_.end()) {
    const std::uint32_t known = found->second.key.attempt.prefill_leg;
    if (message.key.attempt.prefill_leg == known) return repeat(found->second);
    if (message.key.attempt.prefill_leg < known) return;
    end(request, found->second.key, now);
  } else if (const protocol::Message* answer = tombstones_.find(message.key)) {
    return send(from, *answer);
  }
  Result<engine::Sequence> sequence = admit(message, now);
  if (!sequence) return refuse(from, message.key, sequence.error());
  Job& job = jobs_[request];
  job.key = message.key;
  job.owner = from;
  job.needs_target = message.needs_target;
  job.length = sequence->length();
  job.first_index = static_cast<std::int32_t>(sequence->generated_count());
  job.received = arrived;
  job.source = handoff::SourceId(next_source_++);
  job.sequence = table_.add(std::move(*sequence));
  by_sequence_[*job.sequence] = request;
}

void PrefillCore::on(const OwnerRef& from, const protocol::Target& message, Instant) {
  const auto found = jobs_.find(message.key.request);
  if (found == jobs_.end()) {
    const protocol::Message* answer = tombstones_.find(message.key);
    return send(from, answer != nullptr ? *answer : protocol::Message(protocol::Gone{message.key}));
  }
  Job& job = found->second;
  if (message.key.attempt.prefill_leg != job.key.attempt.prefill_leg ||
      message.key.attempt.decode_leg < job.key.attempt.decode_leg) {
    return;
  }
  if (job.handed_over && message.key.attempt != job.key.attempt) {
    return refuse(from, message.key, Error(Reason::released, "the units of this attempt are gone"));
  }
  if (job.handed_over) return repeat(job);
  job.key = message.key;
  job.outcome.reset();
  job.target = message;
  if (job.source_begun) send_target(job);
}

void PrefillCore::send_target(Job& job) {
  command(handoff::SetTarget{job.source, job.key, job.target->node, job.target->epoch,
                             job.target->grant});
}

void PrefillCore::on(const OwnerRef& from, const protocol::Cancel& message, Instant now) {
  const auto found = jobs_.find(message.key.request);
  if (found != jobs_.end() &&
      found->second.key.attempt.prefill_leg > message.key.attempt.prefill_leg) {
    return send(from, protocol::Gone{message.key});  // an earlier attempt, long gone
  }
  if (found != jobs_.end()) {
    effects_.push_back(Counted{Countable::request_cancelled, Reason::cancelled, {}});
  }
  end(message.key.request, message.key, now);
  send(from, protocol::Gone{message.key});
}

void PrefillCore::on(const OwnerRef& from, const protocol::Release& message, Instant now) {
  const auto found = jobs_.find(message.key.request);
  if (found == jobs_.end() ||
      found->second.key.attempt.prefill_leg <= message.key.attempt.prefill_leg) {
    end(message.key.request, message.key, now);
  }
  send(from, protocol::Gone{message.key});
}

void PrefillCore::on(const OwnerRef& from, const protocol::Unknown& message, Instant now) {
  for (const AttemptKey& key : message.keys) {
    const auto found = jobs_.find(key.request);
    if (found == jobs_.end() || found->second.owner != from || found->second.key != key) continue;
    effects_.push_back(Counted{Countable::orphan_freed, Reason::unknown_request, {}});
    end(key.request, key, now);
  }
}

// ---- ends ----

void PrefillCore::end(RequestId request, const AttemptKey& key, Instant now) {
  const auto found = jobs_.find(request);
  AttemptKey last = key;
  if (found != jobs_.end()) {
    Job& job = found->second;
    last = job.key;
    last.attempt.prefill_leg = std::max(last.attempt.prefill_leg, key.attempt.prefill_leg);
    last.attempt.decode_leg = std::max(last.attempt.decode_leg, key.attempt.decode_leg);
    if (job.source_begun) command(handoff::AbortSource{job.source});
    give_back_sequence(job);
    jobs_.erase(found);
  }
  tombstones_.put(last, protocol::Gone{last}, now + 2 * limits_.lease);
}

void PrefillCore::give_back_sequence(Job& job) {
  if (!job.sequence) return;
  const engine::SequenceId id = *std::exchange(job.sequence, std::nullopt);
  by_sequence_.erase(id);
  const bool in_step =
      std::any_of(step_.prefill.begin(), step_.prefill.end(),
                  [id](const engine::PrefillRows& rows) { return rows.sequence == id; });
  if (in_step) {
    leaving_.insert(id);
  } else {
    table_.remove(id, pools_);
  }
}

void PrefillCore::end_all_of(const OwnerRef& owner, Countable why, Instant now) {
  std::vector<AttemptKey> keys = inventory(owner);
  for (const AttemptKey& key : keys) {
    effects_.push_back(Counted{why, Reason::lease_expired, {}});
    end(key.request, key, now);
    // An owner that is only slow learns of it; the others are not connected.
    send(owner, protocol::Gone{key});
  }
}

void PrefillCore::tick(Instant now) {
  for (const OwnerRef& owner : owners_.take_expired(now)) {
    end_all_of(owner, Countable::lease_expired, now);
  }
  tombstones_.tick(now);
}

std::vector<AttemptKey> PrefillCore::inventory(const OwnerRef& owner) const {
  std::vector<AttemptKey> out;
  for (const auto& [request, job] : jobs_) {
    if (job.owner == owner) out.push_back(job.key);
  }
  return out;
}

// ---- steps ----

PrefillCore::Job* PrefillCore::job_of(engine::SequenceId sequence) {
  const auto found = by_sequence_.find(sequence);
  return found == by_sequence_.end() ? nullptr : &jobs_.at(found->second);
}

PrefillCore::Job* PrefillCore::job_of(handoff::SourceId source) {
  for (auto& [request, job] : jobs_) {
    if (job.source == source) return &job;
  }
  return nullptr;
}

engine::StepPlan PrefillCore::next_step(Instant now) {
  engine::PlanDecision decision = engine::plan_prefill(table_, pools_, rates_, limits_.plan);
  for (engine::SequenceId id : decision.cannot_grow) {
    if (Job* job = job_of(id)) {
      computation_failed(*job, Error(Reason::cannot_grow, "the prompt does not fit the cache"));
    }
  }
  step_ = std::move(decision.step);
  for (const engine::PrefillRows& rows : step_.prefill) {
    Job* job = job_of(rows.sequence);
    if (job != nullptr && !job->started) note_start(*job, rows, now);
  }
  return step_;
}

/// `rows`: its first ones, which begin where the cached prefix ends.
void PrefillCore::note_start(Job& job, const engine::PrefillRows& rows, Instant now) {
  job.started = now;
  job.cached_tokens = rows.first_position;
  if (table_.find(rows.sequence)->uses_prefix_cache()) {
    effects_.push_back(worker::PrefixLookedUp{job.length, job.cached_tokens});
  }
}

void PrefillCore::refresh_source(Job& job) {
  const engine::Sequence* sequence = table_.find(*job.sequence);
  pins_[job.source].add(sequence->blocks(), pools_, kvcache::HolderKind::send_pin);
  std::vector<handoff::LocalBlocks> blocks = worker::local_blocks(sequence->blocks(), pools_);
  if (job.source_begun) {
    command(handoff::ExtendSource{job.source, std::move(blocks)});
    return;
  }
  job.source_begun = true;
  command(handoff::BeginSource{job.source, job.key, job.length, std::move(blocks), *job.started});
  if (job.target) send_target(job);
}

void PrefillCore::layer_done(int layer, Instant now) {
  for (const engine::PrefillRows& rows : step_.prefill) {
    Job* job = job_of(rows.sequence);
    if (job == nullptr || !job->needs_target) continue;
    if (layer == 0) refresh_source(*job);
    command(handoff::LayerReady{job->source, static_cast<std::uint32_t>(layer),
                                rows.first_position + rows.count, now});
  }
}

bool PrefillCore::cancelled(engine::SequenceId sequence) { return leaving_.contains(sequence); }

void PrefillCore::step_done(const Result<engine::StepEvents>& events, Instant now) {
  const engine::StepPlan step = std::exchange(step_, {});
  for (engine::SequenceId id : std::exchange(leaving_, {})) table_.remove(id, pools_);
  if (!events) {
    for (const engine::PrefillRows& rows : step.prefill) {
      if (Job* job = job_of(rows.sequence)) computation_failed(*job, events.error());
    }
    return;
  }
  rates_.observe(events->shape, events->took);
  for (const engine::PrefillRows& rows : events->chunks) {
    if (Job* job = job_of(rows.sequence)) job->prompt_rows += rows.count;
  }
  for (const engine::SequenceFailure& failure : events->failed) {
    if (Job* job = job_of(failure.sequence)) computation_failed(*job, failure.error);
  }
  for (const engine::TokenEvent& event : events->tokens) {
    if (Job* job = job_of(event.sequence)) sampled(*job, event, now);
  }
}

void PrefillCore::sampled(Job& job, const engine::TokenEvent& event, Instant now) {
  protocol::Tokens tokens;
  tokens.key = job.key;
  tokens.first_index = job.first_index;
  tokens.ids = {event.id};
  if (event.logits_digest) tokens.digests = {*event.logits_digest};
  if (event.logprobs) {
    protocol::Tokens::Logprob& logprob = tokens.logprobs.emplace_back();
    logprob.chosen = event.logprobs->chosen.logprob;
    for (const engine::TokenLogprob& top : event.logprobs->top) {
      logprob.top.emplace_back(top.id, top.logprob);
    }
  }
  tokens.times.queue = *job.started - job.received;
  tokens.times.prefill = now - *job.started;
  tokens.cached_tokens = job.cached_tokens;
  job.tokens = tokens;
  send(job.owner, tokens);
  if (job.needs_target && !event.finish) {
    command(handoff::CommitSource{job.source, job.first_index, std::move(tokens), now});
    return;
  }
  protocol::Finished finished;
  finished.key = job.key;
  finished.finish =
      event.finish == engine::Finish::stop ? FinishReason::stop : FinishReason::length;
  finished.tokens = job.first_index + 1;
  finished.times = tokens.times;
  finished.facts.prompt_rows = job.prompt_rows;
  job.outcome = finished;
  send(job.owner, finished);
  effects_.push_back(Counted{Countable::request_finished, Reason::internal, {}});
  if (job.source_begun) command(handoff::AbortSource{job.source});
  job.source_begun = false;
  give_back_sequence(job);
}

void PrefillCore::computation_failed(Job& job, const Error& error) {
  protocol::Finished finished;
  finished.key = job.key;
  finished.finish = FinishReason::error;
  finished.reason = error.reason();
  finished.message = error.message();
  finished.tokens = job.first_index;
  job.outcome = finished;
  send(job.owner, finished);
  effects_.push_back(Counted{Countable::request_failed, error.reason(), {}});
  if (job.source_begun) command(handoff::AbortSource{job.source});
  job.source_begun = false;
  give_back_sequence(job);
}

// ---- handoffs ----

void PrefillCore::driver_event(const worker::DriverEvent& event, Instant now) {
  std::visit([&](const auto& each) { on(each, now); }, event);
}

void PrefillCore::on(const handoff::SourceAccepted& event, Instant) {
  effects_.push_back(Counted{Countable::handoff_accepted, Reason::internal, event.facts});
  Job* job = job_of(event.source);
  if (job == nullptr) return;
  job->handed_over = true;
  job->source_begun = false;  // the source ends by itself
  job->outcome = protocol::HandoffEnded{event.key, true, Reason::internal, "", event.facts};
  send(job->owner, *job->outcome);
  if (job->key != event.key) {
    // A newer target came while the acceptance was on its way from the transport thread.
    refuse(job->owner, job->key, Error(Reason::released, "the units of this attempt are gone"));
  }
  give_back_sequence(*job);
}

void PrefillCore::on(const handoff::SourceFailed& event, Instant) {
  effects_.push_back(Counted{Countable::handoff_failed, event.reason, {}});
  Job* job = job_of(event.source);
  if (job == nullptr) return;
  job->outcome = protocol::HandoffEnded{event.key, false, event.reason, event.message, event.facts};
  send(job->owner, *job->outcome);
}

void PrefillCore::on(const handoff::SourceIdle& event, Instant) {
  const auto found = pins_.find(event.source);
  if (found == pins_.end()) return;
  found->second.release(pools_, kvcache::HolderKind::send_pin);
  pins_.erase(found);
}

// ---- load ----

protocol::Load PrefillCore::load() const {
  protocol::Load load;
  engine::StepShape rest;
  for (const auto& [request, job] : jobs_) {
    if (job.source_begun) ++load.handoffs;
    const engine::Sequence* sequence = job.sequence ? table_.find(*job.sequence) : nullptr;
    if (sequence == nullptr || sequence->phase() != engine::Phase::prefill) continue;
    ++(job.started ? load.running : load.queued);
    const std::int64_t left = sequence->length() - sequence->cached();
    load.backlog_tokens += left;
    rest.add(sequence->cached(), left);
  }
  if (rest.rows > 0) load.backlog = rates_.predict(rest);
  load.free_tokens =
      static_cast<std::int64_t>(pools_.available_blocks(0)) * pools_.config().block_positions;
  load.capacity_tokens =
      static_cast<std::int64_t>(pools_.config().groups[0].blocks) * pools_.config().block_positions;
  return load;
}

}  // namespace baton::prefill_node
