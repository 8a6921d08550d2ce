#include "baton/prefill_node/core/prefill_core.h"

#include <algorithm>
#include <utility>

#include "baton/worker/core/request_core_rules.h"

template class baton::worker::RequestCore<baton::prefill_node::PrefillJob>;

namespace baton::prefill_node {

using handoff::OwnerRef;
using protocol::FinishReason;
using worker::Countable;
using worker::Counted;

namespace {

constexpr worker::Phase phase_rules{&Attempt::prefill_leg, kvcache::HolderKind::send_pin, 200};

}  // namespace

PrefillCore::PrefillCore(worker::NodeLimits limits, kvcache::PoolConfig pools)
    : RequestCore(phase_rules, std::move(limits), std::move(pools)) {}

// ---- messages ----

void PrefillCore::phase_message(const OwnerRef& from, const protocol::Message& message,
                                Instant arrived, Instant now) {
  if (const auto* prefill = std::get_if<protocol::Prefill>(&message)) {
    on(from, *prefill, arrived, now);
  } else if (const auto* target = std::get_if<protocol::Target>(&message)) {
    on(from, *target);
  }
}

void PrefillCore::repeat(const Job& job) {
  if (job.tokens) send(job.owner, *job.tokens);
  if (job.outcome) send(job.owner, *job.outcome);
}

Result<engine::Sequence> PrefillCore::admit(const protocol::Prefill& message, Instant now) const {
  if (draining()) return Error(Reason::draining, "the prefill worker is shutting down");
  const std::int64_t length = message.work.length();
  if (!pools().could_fit(length, limits().plan.chunk_rows)) {
    return Error(Reason::prompt_exceeds_pool,
                 "a prompt of " + std::to_string(length) + " tokens is larger than the cache");
  }
  if (jobs().size() >= limits().requests || load().backlog_tokens > limits().backlog_tokens) {
    return Error(Reason::overloaded, "the prefill worker's queue is full");
  }
  return engine::Sequence::for_prefill(
      worker::spec_of(message.work, limits(), pools().config().block_positions, now),
      limits().model);
}

void PrefillCore::on(const OwnerRef& from, const protocol::Prefill& message, Instant arrived,
                     Instant now) {
  if (is_answered(from, message.key, now)) return;
  Result<engine::Sequence> sequence = admit(message, now);
  if (!sequence) return refuse(from, message.key, sequence.error());
  Job& job = add_job(from, message.key);
  job.needs_target = message.needs_target;
  job.length = sequence->length();
  job.first_index = static_cast<std::int32_t>(sequence->generated_count());
  job.received = arrived;
  job.source = next_source();
  add_sequence(job, std::move(*sequence));
}

void PrefillCore::on(const OwnerRef& from, const protocol::Target& message) {
  Job* const known = job_of(message.key.request);
  if (known == nullptr) return answer_gone(from, message.key);
  Job& job = *known;
  if (message.key.attempt.prefill_leg != job.key.attempt.prefill_leg ||
      message.key.attempt.decode_leg < job.key.attempt.decode_leg) {
    return;
  }
  const bool is_known = message.key.attempt == job.key.attempt;
  if (job.handed_over && !is_known) {
    return refuse(from, message.key, Error(Reason::released, "the units of this attempt are gone"));
  }
  // A grant that was given up is not filled again: part of it may have been sent.
  if (is_known && job.outcome) return repeat(job);
  job.key = message.key;
  job.outcome.reset();
  job.target = message;
  if (job.source_begun) send_target(job);
}

void PrefillCore::send_target(Job& job) {
  command(handoff::SetTarget{job.source, job.key, job.target->node, job.target->epoch,
                             job.target->grant});
}

void PrefillCore::give_back(Job& job) {
  // What still sends keeps its pins.
  if (std::exchange(job.source_begun, false)) command(handoff::AbortSource{job.source});
  give_back_sequence(job);
}

// ---- steps ----

engine::StepPlan PrefillCore::next_step(Instant now) {
  engine::PlanDecision decision = engine::plan_prefill(table(), pools(), rates(), limits().plan);
  if (!blocks_come_back()) {
    for (engine::SequenceId id : decision.preempt) preempt(*job_of(id));
  }
  fail_all(decision.cannot_grow, Error(Reason::cannot_grow, "the prompt does not fit the cache"),
           now);
  begin_step(std::move(decision.step));
  for (const engine::PrefillRows& rows : step().prefill) {
    Job* job = job_of(rows.sequence);
    if (job != nullptr && !job->started) note_start(*job, rows, now);
  }
  return step();
}

/// Computed prompts leave by themselves; what an ended source pinned is free when its sends are.
/// Nobody gives way for what will come anyway.
bool PrefillCore::blocks_come_back() const {
  const auto computing = std::count_if(jobs().begin(), jobs().end(), [](const auto& each) {
    return each.second.source_begun && !each.second.tokens;
  });
  return pinned() > static_cast<std::size_t>(computing);
}

/// Its blocks go to older prompts; it is computed again when there are some. The units are made
/// anew then, by a new source into a new grant: what of the old ones has been sent nobody can say.
void PrefillCore::preempt(Job& job) {
  count(Countable::preempted, Reason::no_space);
  table().find(*job.sequence)->preempt(pools());
  if (!std::exchange(job.source_begun, false)) return;
  command(handoff::AbortSource{job.source});
  job.source = next_source();
  if (!std::exchange(job.target, std::nullopt)) return;
  job.outcome = protocol::HandoffEnded{
      job.key, false, Reason::no_space, "the prompt's blocks went to an older prompt", {}};
  send(job.owner, *job.outcome);
}

/// `rows`: its first ones, which begin where the cached prefix ends.
void PrefillCore::note_start(Job& job, const engine::PrefillRows& rows, Instant now) {
  job.started = now;
  job.cached_tokens = rows.first_position;
  if (table().find(rows.sequence)->uses_prefix_cache()) {
    add(worker::PrefixLookedUp{job.length, job.cached_tokens});
  }
}

void PrefillCore::refresh_source(Job& job) {
  const engine::Sequence* sequence = table().find(*job.sequence);
  pin(job.source.value(), sequence->blocks(), job.length);
  std::vector<handoff::LocalBlocks> blocks = worker::local_blocks(sequence->blocks(), pools());
  if (job.source_begun) {
    command(handoff::ExtendSource{job.source, std::move(blocks)});
    return;
  }
  job.source_begun = true;
  command(handoff::BeginSource{job.source, job.key, job.length, std::move(blocks), *job.started});
  if (job.target) send_target(job);
}

void PrefillCore::layer_done(int layer, Instant now) {
  for (const engine::PrefillRows& rows : step().prefill) {
    Job* job = job_of(rows.sequence);
    if (job == nullptr || !job->needs_target) continue;
    if (layer == 0) refresh_source(*job);
    command(handoff::LayerReady{job->source, static_cast<std::uint32_t>(layer),
                                rows.first_position + rows.count, now});
  }
}

void PrefillCore::computed(const engine::StepPlan&, const engine::StepEvents& events, Instant) {
  for (const engine::PrefillRows& rows : events.chunks) {
    if (Job* job = job_of(rows.sequence)) job->prompt_rows += rows.count;
  }
}

void PrefillCore::sampled(Job& job, const engine::TokenEvent& event, Instant now) {
  protocol::Tokens tokens;
  tokens.key = job.key;
  tokens.first_index = job.first_index;
  tokens.ids = {event.id};
  if (event.logits_digest) tokens.digests = {*event.logits_digest};
  if (event.logprobs) tokens.logprobs = {worker::logprob_of(*event.logprobs)};
  tokens.times.queue = *job.started - job.received;
  tokens.times.prefill = now - *job.started;
  tokens.cached_tokens = job.cached_tokens;
  job.tokens = tokens;
  send(job.owner, tokens);
  add(worker::PromptReady{job.length - job.cached_tokens, job.cached_tokens, 0});
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
  count(Countable::request_finished);
  finish(job, std::move(finished));
}

void PrefillCore::failed(Job& job, const Error& error, Instant) {
  protocol::Finished finished;
  finished.key = job.key;
  finished.finish = FinishReason::error;
  finished.reason = error.reason();
  finished.message = error.message();
  finished.tokens = job.first_index;
  count(Countable::request_failed, error.reason());
  finish(job, std::move(finished));
}

void PrefillCore::finish(Job& job, protocol::Finished finished) {
  send(job.owner, finished);
  job.outcome = std::move(finished);
  give_back(job);
}

// ---- handoffs ----

void PrefillCore::driver_event(const worker::DriverEvent& event, Instant) {
  std::visit([&](const auto& each) { on(each); }, event);
}

PrefillCore::Job* PrefillCore::job_of_source(handoff::SourceId source) {
  for (auto& [request, job] : jobs()) {
    if (job.source == source) return &job;
  }
  return nullptr;
}

void PrefillCore::on(const handoff::SourceAccepted& event) {
  add(Counted{Countable::handoff_accepted, Reason::internal, event.facts});
  Job* job = job_of_source(event.source);
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

void PrefillCore::on(const handoff::SourceFailed& event) {
  count(Countable::handoff_failed, event.reason);
  Job* job = job_of_source(event.source);
  if (job == nullptr) return;
  job->outcome = protocol::HandoffEnded{event.key, false, event.reason, event.message, event.facts};
  send(job->owner, *job->outcome);
}

void PrefillCore::on(const handoff::SourceIdle& event) { unpin(event.source.value()); }

// ---- load ----

protocol::Load PrefillCore::load() const {
  protocol::Load load = base_load();
  for (const auto& [request, job] : jobs()) {
    if (job.source_begun) ++load.handoffs;
    const engine::Sequence* sequence = job.sequence ? table().find(*job.sequence) : nullptr;
    if (sequence == nullptr || sequence->phase() != engine::Phase::prefill) continue;
    ++(job.started ? load.running : load.queued);
  }
  return load;
}

}  // namespace baton::prefill_node
