#include "baton/decode_node/core/decode_core.h"

#include <algorithm>
#include <utility>

#include "baton/base/check.h"

namespace baton::decode_node {

using handoff::OwnerRef;
using protocol::AttemptKey;
using protocol::FinishReason;
using worker::Countable;
using worker::Counted;

namespace {

// Of one message: with a digest and 20 alternatives each they take a third of the longest frame.
constexpr std::int32_t tokens_per_message = 1000;

/// The facts that came with a handed-over token are exactly those that later tokens will have: the
/// lists of a job stay in step.
bool has_facts_asked_for(const protocol::Tokens& tokens, const protocol::Sampling& sampling) {
  const std::size_t count = tokens.ids.size();
  return tokens.digests.size() == (sampling.logits_digest ? count : 0) &&
         tokens.logprobs.size() == (sampling.logprobs >= 0 ? count : 0);
}

}  // namespace

DecodeCore::DecodeCore(worker::NodeLimits limits, kvcache::PoolConfig pools,
                       std::uint64_t first_grant)
    : limits_(std::move(limits)),
      pools_(std::move(pools)),
      tombstones_(limits_.tombstones),
      next_grant_(first_grant) {}

std::vector<worker::NodeEffect> DecodeCore::take_effects() { return std::exchange(effects_, {}); }

// ---- messages ----

void DecodeCore::message(const OwnerRef& from, const protocol::Message& message, Instant,
                         Instant now) {
  if (!owners_.accept(from, limits_.lease, now)) return;
  std::visit([&](const auto& each) { on(from, each, now); }, message);
}

void DecodeCore::owner_connected(const OwnerRef& owner, Instant now) {
  if (const auto before = owners_.heard_from(owner, limits_.lease, now)) {
    end_all_of(*before, Countable::request_cancelled, now);
  }
  for (const auto& [request, job] : jobs_) {
    if (job.owner == owner) repeat(job);
  }
}

/// What a router may have missed; tokens are sent again on Resume.
void DecodeCore::repeat(const Job& job) {
  if (!job.owned) return send(job.owner, protocol::Granted{job.key, job.grant});
  send(job.owner, protocol::Owned{job.key, job.first_index});
  if (job.finished) {
    send_tokens(job, job.first_index);
    send(job.owner, *job.finished);
  }
}

void DecodeCore::on(const OwnerRef& from, const protocol::Heartbeat& message, Instant now) {
  owners_.heard_from(from, std::chrono::milliseconds(message.lease_ms), now);
}

Result<void> DecodeCore::admit(const protocol::Reserve& message) const {
  if (draining_) return Error(Reason::draining, "the decode worker is shutting down");
  const std::int64_t length = message.work.length();
  constexpr std::int64_t handed_over_rows = 2;  // see on(Reserve)
  if (!pools_.could_fit(length + 1, std::max(limits_.plan.chunk_rows, handed_over_rows))) {
    return Error(Reason::prompt_exceeds_pool,
                 "a prompt of " + std::to_string(length) + " tokens is larger than the cache");
  }
  if (jobs_.size() >= limits_.requests) {
    return Error(Reason::overloaded, "the decode worker holds as many requests as it may");
  }
  return ok();
}

void DecodeCore::refuse(const OwnerRef& to, const AttemptKey& key, const Error& error) {
  constexpr std::int64_t retry_after_ms = 50;
  send(to, protocol::Refused{key, error.reason(), error.message(), retry_after_ms});
  effects_.push_back(Counted{Countable::request_refused, error.reason(), {}});
}

void DecodeCore::on(const OwnerRef& from, const protocol::Reserve& message, Instant now) {
  const RequestId request = message.key.request;
  const auto found = jobs_.find(request);
  if (found != jobs_.end()) {
    const std::uint32_t known = found->second.key.attempt.decode_leg;
    if (message.key.attempt.decode_leg == known) return repeat(found->second);
    if (message.key.attempt.decode_leg < known) return;
    end(request, found->second.key, now);
  } else if (const protocol::Message* answer = tombstones_.find(message.key)) {
    return send(from, *answer);
  }
  if (const Result<void> admitted = admit(message); !admitted) {
    return refuse(from, message.key, admitted.error());
  }
  const std::int64_t length = message.work.length();
  const std::int64_t wanted =
      std::min<std::int64_t>(limits_.headroom_tokens, message.work.sampling.max_tokens);
  kvcache::SequenceBlocks blocks;
  // From the last position of the prompt on: its unit comes even when no later query sees it
  // (handoff::first_needed_unit). Other sequences grow optimistically; this one starts with room
  // for its first tokens.
  const bool is_next = !space_queue_.must_wait(request, message.prompt_ready, now);
  const bool fits = is_next && (pools_.extend(blocks, {length - 1, length + 1, length + wanted}) ||
                                pools_.extend(blocks, {length - 1, length + 1, length + 1}));
  if (!fits) {
    const bool starves = is_next && space_queue_.has_waited_long(request, now);
    space_queue_.refused(request, message.prompt_ready, now);
    if (starves && message.prompt_ready) take_back_a_grant(now);
    return refuse(from, message.key, Error(Reason::no_space, "no free blocks now"));
  }
  space_queue_.leave(request);
  Job& job = jobs_[request];
  job.key = message.key;
  job.owner = from;
  job.work = message.work;
  job.prompt_ready = message.prompt_ready;
  job.first_index = static_cast<std::int32_t>(message.work.generated_ids.size());
  job.blocks = std::move(blocks);
  job.grant = worker::grant_of(next_grant_++, length, job.blocks, pools_);
  by_grant_[job.grant.id] = request;
  pins_[job.grant.id].add(job.blocks, pools_, kvcache::HolderKind::open_receive);
  command(handoff::OpenGrant{job.key, job.grant, worker::local_blocks(job.blocks, pools_)});
  send(from, protocol::Granted{job.key, job.grant});
}

/// Prompts that wait for a grant fill a prefill worker's cache, grants of prompts that wait for
/// that cache fill ours: neither would ever go on. A prompt that is not computed loses little.
void DecodeCore::take_back_a_grant(Instant now) {
  Job* youngest = nullptr;
  for (auto& [request, job] : jobs_) {
    if (job.owned || job.prompt_ready) continue;
    if (youngest == nullptr || job.grant.id > youngest->grant.id) youngest = &job;
  }
  if (youngest == nullptr) return;
  const OwnerRef owner = youngest->owner;
  const AttemptKey key = youngest->key;
  end(key.request, key, now);
  refuse(owner, key, Error(Reason::no_space, "the blocks went to a prompt that is computed"));
}

void DecodeCore::on(const OwnerRef& from, const protocol::Cancel& message, Instant now) {
  const auto found = jobs_.find(message.key.request);
  if (found != jobs_.end() &&
      found->second.key.attempt.decode_leg > message.key.attempt.decode_leg) {
    return send(from, protocol::Gone{message.key});  // an earlier attempt, long gone
  }
  if (found != jobs_.end() && !found->second.finished) {
    effects_.push_back(Counted{Countable::request_cancelled, Reason::cancelled, {}});
  }
  end(message.key.request, message.key, now);
  send(from, protocol::Gone{message.key});
}

void DecodeCore::on(const OwnerRef& from, const protocol::Release& message, Instant now) {
  const auto found = jobs_.find(message.key.request);
  if (found == jobs_.end() ||
      found->second.key.attempt.decode_leg <= message.key.attempt.decode_leg) {
    end(message.key.request, message.key, now);
  }
  send(from, protocol::Gone{message.key});
}

void DecodeCore::on(const OwnerRef& from, const protocol::Resume& message, Instant) {
  const auto found = jobs_.find(message.key.request);
  if (found == jobs_.end()) return send(from, protocol::Gone{message.key});
  const Job& job = found->second;
  if (job.key != message.key || !job.owned) return;
  send_tokens(job, message.next_index);
  if (job.finished) send(from, *job.finished);
}

void DecodeCore::on(const OwnerRef& from, const protocol::Unknown& message, Instant now) {
  for (const AttemptKey& key : message.keys) {
    const auto found = jobs_.find(key.request);
    if (found == jobs_.end() || found->second.owner != from || found->second.key != key) continue;
    effects_.push_back(Counted{Countable::orphan_freed, Reason::unknown_request, {}});
    end(key.request, key, now);
  }
}

void DecodeCore::send_tokens(const Job& job, std::int32_t first_index) {
  const std::int32_t end = job.first_index + static_cast<std::int32_t>(job.ids.size());
  std::int32_t next = std::clamp(first_index, job.first_index, end);
  do {
    send(job.owner, tokens_from(job, next));
    next += tokens_per_message;
  } while (next < end);
}

protocol::Tokens DecodeCore::tokens_from(const Job& job, std::int32_t first_index) const {
  protocol::Tokens out;
  out.key = job.key;
  out.first_index = first_index;
  const std::ptrdiff_t skip = first_index - job.first_index;
  const std::ptrdiff_t end =
      std::min<std::ptrdiff_t>(skip + tokens_per_message, std::ssize(job.ids));
  const auto take = [&](const auto& all, auto& part) {
    if (!all.empty()) part.assign(all.begin() + skip, all.begin() + end);
  };
  take(job.ids, out.ids);
  take(job.digests, out.digests);
  take(job.logprobs, out.logprobs);
  out.times = times_of(job, job.last_row);
  return out;
}

/// Nothing before the first row has ended.
protocol::PhaseTimes DecodeCore::times_of(const Job& job, Instant decoded_until) {
  protocol::PhaseTimes times;
  if (!job.first_row) return times;
  times.commit_held = job.accepted - job.committed;
  times.first_decode = *job.first_row - job.accepted;
  times.decode = decoded_until - *job.first_row;
  return times;
}

// ---- handoffs ----

void DecodeCore::driver_event(const worker::DriverEvent& event, Instant now) {
  std::visit([&](const auto& each) { on(each, now); }, event);
}

void DecodeCore::on(const handoff::CommitVerified& event, Instant now) {
  const auto request = by_grant_.find(event.commit.grant);
  if (request == by_grant_.end()) {
    effects_.push_back(worker::ToPair{
        event.link, protocol::CommitRefused{
                        event.commit.key, Reason::released, "the request has ended here", {}}});
    return;
  }
  Job& job = jobs_.at(request->second);
  engine::SequenceSpec spec =
      worker::spec_of(job.work, limits_, pools_.config().block_positions, now);
  spec.generated.insert(spec.generated.end(), event.commit.tokens.ids.begin(),
                        event.commit.tokens.ids.end());
  Result<engine::Sequence> sequence =
      has_facts_asked_for(event.commit.tokens, job.work.sampling)
          ? engine::Sequence::for_decode(std::move(spec), limits_.model, event.commit.length,
                                         job.blocks, pools_)
          : Error(Reason::protocol_violation, "the first token brings other facts than asked for");
  if (!sequence) {
    effects_.push_back(Counted{Countable::handoff_failed, sequence.error().reason(), {}});
    effects_.push_back(worker::ToPair{
        event.link,
        protocol::CommitRefused{
            event.commit.key, sequence.error().reason(), sequence.error().message(), {}}});
    return;
  }
  start(job, event, std::move(*sequence), now);
}

void DecodeCore::start(Job& job, const handoff::CommitVerified& event, engine::Sequence sequence,
                       Instant now) {
  job.sequence = table_.add(std::move(sequence));
  by_sequence_[*job.sequence] = job.key.request;
  job.owned = true;
  job.committed = event.arrived;
  job.accepted = now;
  const protocol::Tokens& first = event.commit.tokens;
  job.ids = first.ids;
  job.digests = first.digests;
  job.logprobs = first.logprobs;
  effects_.push_back(worker::ToPair{event.link, protocol::Accepted{event.commit.key}});
  effects_.push_back(Counted{Countable::handoff_accepted, Reason::internal, {}});
  send(job.owner, protocol::Owned{job.key, job.first_index});
  send(job.owner, tokens_from(job, job.first_index));
  by_grant_.erase(job.grant.id);
  command(handoff::CloseGrant{job.grant.id});
}

void DecodeCore::on(const handoff::GrantClosed& event, Instant) {
  const auto found = pins_.find(event.grant);
  if (found == pins_.end()) return;
  found->second.release(pools_, kvcache::HolderKind::open_receive);
  pins_.erase(found);
}

// ---- steps ----

DecodeCore::Job* DecodeCore::job_of(engine::SequenceId sequence) {
  const auto found = by_sequence_.find(sequence);
  return found == by_sequence_.end() ? nullptr : &jobs_.at(found->second);
}

engine::StepPlan DecodeCore::next_step(Instant now) {
  engine::PlanDecision decision = engine::plan_mixed(table_, pools_, rates_, limits_.plan);
  for (engine::SequenceId id : decision.preempt) {
    table_.find(id)->preempt(pools_);
    effects_.push_back(Counted{Countable::preempted, Reason::no_space, {}});
  }
  for (engine::SequenceId id : decision.cannot_grow) {
    if (Job* job = job_of(id)) {
      finish(*job, FinishReason::error,
             Error(Reason::cannot_grow, "the cache has no room for another token"), now);
    }
  }
  step_ = std::move(decision.step);
  return step_;
}

bool DecodeCore::cancelled(engine::SequenceId sequence) { return leaving_.contains(sequence); }

void DecodeCore::note_first_step(const engine::StepPlan& step, Instant now) {
  for (const engine::DecodeRow& row : step.decode) {
    Job* job = job_of(row.sequence);
    if (job == nullptr || job->first_row) continue;
    job->first_row = now;
    job->facts.first_step_rows = 1;
    job->facts.cache_before = row.position;
    job->facts.cache_after = table_.find(row.sequence)->cached();
  }
}

void DecodeCore::step_done(const Result<engine::StepEvents>& events, Instant now) {
  const engine::StepPlan step = std::exchange(step_, {});
  for (engine::SequenceId id : std::exchange(leaving_, {})) table_.remove(id, pools_);
  if (!events) {
    for (const engine::DecodeRow& row : step.decode) {
      if (Job* job = job_of(row.sequence)) finish(*job, FinishReason::error, events.error(), now);
    }
    for (const engine::PrefillRows& rows : step.prefill) {
      if (Job* job = job_of(rows.sequence)) finish(*job, FinishReason::error, events.error(), now);
    }
    return;
  }
  rates_.observe(events->shape, events->took);
  note_first_step(step, now);
  for (const engine::PrefillRows& rows : events->chunks) {
    Job* job = job_of(rows.sequence);
    if (job == nullptr) continue;
    // Only recomputed victims prefill here: their prompt came by handoff and was dropped.
    job->facts.recomputed_rows += static_cast<std::int32_t>(rows.count);
  }
  for (const engine::SequenceFailure& failure : events->failed) {
    if (Job* job = job_of(failure.sequence)) {
      finish(*job, FinishReason::error, failure.error, now);
    }
  }
  for (const engine::TokenEvent& event : events->tokens) {
    if (Job* job = job_of(event.sequence)) append(*job, event, now);
  }
}

void DecodeCore::append(Job& job, const engine::TokenEvent& event, Instant now) {
  const std::int32_t index = job.first_index + static_cast<std::int32_t>(job.ids.size());
  job.ids.push_back(event.id);
  job.last_row = now;
  if (event.logits_digest) job.digests.push_back(*event.logits_digest);
  if (event.logprobs) {
    protocol::Tokens::Logprob& logprob = job.logprobs.emplace_back();
    logprob.chosen = event.logprobs->chosen.logprob;
    for (const engine::TokenLogprob& top : event.logprobs->top) {
      logprob.top.emplace_back(top.id, top.logprob);
    }
  }
  send(job.owner, tokens_from(job, index));
  if (!event.finish) return;
  const bool stop = event.finish == engine::Finish::stop;
  finish(job, stop ? FinishReason::stop : FinishReason::length, Error(), now);
}

void DecodeCore::finish(Job& job, FinishReason finish, const Error& error, Instant now) {
  protocol::Finished finished;
  finished.key = job.key;
  finished.finish = finish;
  const bool failed = finish == FinishReason::error;
  if (failed) {
    finished.reason = error.reason();
    finished.message = error.message();
  }
  finished.tokens = job.first_index + static_cast<std::int32_t>(job.ids.size());
  finished.times = times_of(job, now);
  finished.facts = job.facts;
  job.finished = finished;
  send(job.owner, finished);
  effects_.push_back(Counted{
      failed ? Countable::request_failed : Countable::request_finished, error.reason(), {}});
  give_back(job);
}

// ---- ends ----

void DecodeCore::end(RequestId request, const AttemptKey& key, Instant now) {
  const auto found = jobs_.find(request);
  AttemptKey last = key;
  if (found != jobs_.end()) {
    Job& job = found->second;
    last.attempt.prefill_leg = std::max(key.attempt.prefill_leg, job.key.attempt.prefill_leg);
    last.attempt.decode_leg = std::max(key.attempt.decode_leg, job.key.attempt.decode_leg);
    give_back(job);
    jobs_.erase(found);
  }
  space_queue_.leave(request);
  tombstones_.put(last, protocol::Gone{last}, now + 2 * limits_.lease);
}

/// Blocks of a grant stay in quarantine (pinned by it) until the receiver has closed it.
void DecodeCore::give_back(Job& job) {
  if (by_grant_.erase(job.grant.id) > 0) command(handoff::CloseGrant{job.grant.id});
  pools_.release(job.blocks);
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

void DecodeCore::end_all_of(const OwnerRef& owner, Countable why, Instant now) {
  for (const AttemptKey& key : inventory(owner)) {
    effects_.push_back(Counted{why, Reason::lease_expired, {}});
    end(key.request, key, now);
    // An owner that is only slow learns of it; the others are not connected.
    send(owner, protocol::Gone{key});
  }
}

void DecodeCore::tick(Instant now) {
  for (const OwnerRef& owner : owners_.take_expired(now)) {
    end_all_of(owner, Countable::lease_expired, now);
  }
  tombstones_.tick(now);
}

std::vector<AttemptKey> DecodeCore::inventory(const OwnerRef& owner) const {
  std::vector<AttemptKey> out;
  for (const auto& [request, job] : jobs_) {
    if (job.owner == owner) out.push_back(job.key);
  }
  return out;
}

protocol::Load DecodeCore::load() const {
  protocol::Load load;
  for (const auto& [request, job] : jobs_) {
    if (job.finished) continue;
    ++(job.owned ? load.running : load.queued);
  }
  load.handoffs = static_cast<std::int32_t>(by_grant_.size());
  load.free_tokens =
      static_cast<std::int64_t>(pools_.available_blocks(0)) * pools_.config().block_positions;
  load.capacity_tokens =
      static_cast<std::int64_t>(pools_.config().groups[0].blocks) * pools_.config().block_positions;
  return load;
}

}  // namespace baton::decode_node
