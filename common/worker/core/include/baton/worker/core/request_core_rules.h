// The definitions of RequestCore: for the one source file that instantiates it for a phase's jobs.
#pragma once

#include <algorithm>
#include <chrono>
#include <utility>
#include <variant>

#include "baton/worker/core/request_core.h"

namespace baton::worker {

template <typename PhaseJob>
void RequestCore<PhaseJob>::message(const handoff::OwnerRef& from, const protocol::Message& message,
                                    Instant arrived, Instant now) {
  if (!owners_.accept(from, limits().lease, now)) return;
  if (const auto* heartbeat = std::get_if<protocol::Heartbeat>(&message)) {
    owners_.heard_from(from, std::chrono::milliseconds(heartbeat->lease_ms), now);
  } else if (const auto* cancel = std::get_if<protocol::Cancel>(&message)) {
    on(from, *cancel, now);
  } else if (const auto* release = std::get_if<protocol::Release>(&message)) {
    on(from, *release, now);
  } else if (const auto* unknown = std::get_if<protocol::Unknown>(&message)) {
    on(from, *unknown, now);
  } else {
    phase_message(from, message, arrived, now);
  }
}

template <typename PhaseJob>
void RequestCore<PhaseJob>::owner_connected(const handoff::OwnerRef& owner, Instant now) {
  if (const auto before = owners_.heard_from(owner, limits().lease, now)) {
    end_all_of(*before, Countable::request_cancelled, now);
  }
  for (const auto& [request, job] : jobs_) {
    if (job.owner == owner) repeat(job);
  }
}

template <typename PhaseJob>
void RequestCore<PhaseJob>::on(const handoff::OwnerRef& from, const protocol::Cancel& message,
                               Instant now) {
  const PhaseJob* job = job_of(message.key.request);
  if (job != nullptr && leg(job->key) > leg(message.key)) {
    return send(from, protocol::Gone{message.key});  // an earlier attempt, long gone
  }
  if (job != nullptr && !is_over(*job)) count(Countable::request_cancelled, Reason::cancelled);
  end(message.key.request, message.key, now);
  send(from, protocol::Gone{message.key});
}

template <typename PhaseJob>
void RequestCore<PhaseJob>::on(const handoff::OwnerRef& from, const protocol::Release& message,
                               Instant now) {
  const PhaseJob* job = job_of(message.key.request);
  if (job == nullptr || leg(job->key) <= leg(message.key)) {
    end(message.key.request, message.key, now);
  }
  send(from, protocol::Gone{message.key});
}

template <typename PhaseJob>
void RequestCore<PhaseJob>::on(const handoff::OwnerRef& from, const protocol::Unknown& message,
                               Instant now) {
  for (const protocol::AttemptKey& key : message.keys) {
    const PhaseJob* job = job_of(key.request);
    if (job == nullptr || job->owner != from || job->key != key) continue;
    count(Countable::orphan_freed, Reason::unknown_request);
    end(key.request, key, now);
  }
}

template <typename PhaseJob>
bool RequestCore<PhaseJob>::is_answered(const handoff::OwnerRef& from,
                                        const protocol::AttemptKey& key, Instant now) {
  if (const PhaseJob* job = job_of(key.request)) {
    if (leg(key) == leg(job->key)) repeat(*job);
    if (leg(key) <= leg(job->key)) return true;
    end(key.request, job->key, now);
  } else if (const protocol::Message* answer = tombstones_.find(key)) {
    send(from, *answer);
    return true;
  }
  return false;
}

template <typename PhaseJob>
void RequestCore<PhaseJob>::answer_gone(const handoff::OwnerRef& from,
                                        const protocol::AttemptKey& key) {
  const protocol::Message* answer = tombstones_.find(key);
  send(from, answer != nullptr ? *answer : protocol::Message(protocol::Gone{key}));
}

template <typename PhaseJob>
void RequestCore<PhaseJob>::end(RequestId request, const protocol::AttemptKey& key, Instant now) {
  protocol::AttemptKey last = key;
  if (PhaseJob* job = job_of(request)) {
    const Attempt& known = job->key.attempt;
    last.attempt.prefill_leg = std::max(key.attempt.prefill_leg, known.prefill_leg);
    last.attempt.decode_leg = std::max(key.attempt.decode_leg, known.decode_leg);
    give_back(*job);
    jobs_.erase(request);
  }
  ended(request);
  tombstones_.put(last, protocol::Gone{last}, now + 2 * limits().lease);
}

template <typename PhaseJob>
void RequestCore<PhaseJob>::end_all_of(const handoff::OwnerRef& owner, Countable why, Instant now) {
  for (const protocol::AttemptKey& key : inventory(owner)) {
    count(why, Reason::lease_expired);
    end(key.request, key, now);
    // An owner that is only slow learns of it; the others are not connected.
    send(owner, protocol::Gone{key});
  }
}

template <typename PhaseJob>
void RequestCore<PhaseJob>::tick(Instant now) {
  for (const handoff::OwnerRef& owner : owners_.take_expired(now)) {
    end_all_of(owner, Countable::lease_expired, now);
  }
  tombstones_.tick(now);
}

template <typename PhaseJob>
std::vector<protocol::AttemptKey> RequestCore<PhaseJob>::inventory(
    const handoff::OwnerRef& owner) const {
  std::vector<protocol::AttemptKey> out;
  for (const auto& [request, job] : jobs_) {
    if (job.owner == owner) out.push_back(job.key);
  }
  return out;
}

template <typename PhaseJob>
PhaseJob* RequestCore<PhaseJob>::job_of(RequestId request) {
  const auto found = jobs_.find(request);
  return found == jobs_.end() ? nullptr : &found->second;
}

template <typename PhaseJob>
PhaseJob* RequestCore<PhaseJob>::job_of(engine::SequenceId sequence) {
  const std::optional<RequestId> request = request_of(sequence);
  return request ? &jobs_.at(*request) : nullptr;
}

template <typename PhaseJob>
PhaseJob& RequestCore<PhaseJob>::add_job(const handoff::OwnerRef& owner,
                                         const protocol::AttemptKey& key) {
  PhaseJob& job = jobs_[key.request];
  job.key = key;
  job.owner = owner;
  return job;
}

template <typename PhaseJob>
void RequestCore<PhaseJob>::fail_all(const std::vector<engine::SequenceId>& sequences,
                                     const Error& error, Instant now) {
  for (engine::SequenceId id : sequences) {
    if (PhaseJob* job = job_of(id)) failed(*job, error, now);
  }
}

template <typename PhaseJob>
void RequestCore<PhaseJob>::step_done(const Result<engine::StepEvents>& events, Instant now) {
  const engine::StepPlan step = end_step();
  if (!events) {
    for (const engine::DecodeRow& row : step.decode) fail_all({row.sequence}, events.error(), now);
    for (const engine::PrefillRows& rows : step.prefill) {
      fail_all({rows.sequence}, events.error(), now);
    }
    return;
  }
  observe(*events);
  computed(step, *events, now);
  for (const engine::SequenceFailure& failure : events->failed) {
    fail_all({failure.sequence}, failure.error, now);
  }
  for (const engine::TokenEvent& event : events->tokens) {
    if (PhaseJob* job = job_of(event.sequence)) sampled(*job, event, now);
  }
}

}  // namespace baton::worker
