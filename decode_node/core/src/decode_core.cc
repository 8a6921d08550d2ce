#include "baton/decode_node/core/decode_core.h"

#include <algorithm>
#include <utility>

#include "baton/worker/core/request_core_rules.h"

template class baton::worker::RequestCore<baton::decode_node::DecodeJob>;

namespace baton::decode_node {

using handoff::OwnerRef;
using protocol::AttemptKey;
using protocol::FinishReason;
using worker::Countable;

namespace {

constexpr worker::Phase phase_rules{&Attempt::decode_leg, kvcache::HolderKind::open_receive, 50};

// Of one message: with a digest and 20 alternatives each they take a third of the longest frame.
constexpr std::int32_t tokens_per_message = 1000;

/// The facts that came with a handed-over token are exactly those that later tokens will have: the
/// lists of a job stay in step.
bool has_facts_asked_for(const protocol::Tokens& tokens, const protocol::Sampling& sampling) {
  const std::size_t count = tokens.ids.size();
  return tokens.digests.size() == (sampling.logits_digest ? count : 0) &&
         tokens.logprobs.size() == (sampling.logprobs >= 0 ? count : 0);
}

/// Counts as held what is sent of no group.
std::int64_t held_tokens_of(const protocol::Grant& grant,
                            const std::vector<std::int64_t>& held_to) {
  const bool holds = std::any_of(grant.groups.begin(), grant.groups.end(),
                                 [](const auto& group) { return group.held_units > 0; });
  return holds ? *std::min_element(held_to.begin(), held_to.end()) : 0;
}

}  // namespace

DecodeCore::DecodeCore(worker::NodeLimits limits, kvcache::PoolConfig pools,
                       std::uint64_t first_grant)
    : RequestCore(phase_rules, std::move(limits), std::move(pools)), next_grant_(first_grant) {}

// ---- messages ----

void DecodeCore::phase_message(const OwnerRef& from, const protocol::Message& message,
                               Instant arrived, Instant now) {
  if (const auto* reserve = std::get_if<protocol::Reserve>(&message)) {
    on(from, *reserve, arrived, now);
  } else if (const auto* resume = std::get_if<protocol::Resume>(&message)) {
    on(from, *resume);
  }
}

/// Tokens are sent again on Resume.
void DecodeCore::repeat(const Job& job) {
  if (!job.owned) return send(job.owner, protocol::Granted{job.key, job.grant});
  send(job.owner, protocol::Owned{job.key, job.first_index});
  if (job.finished) {
    send_tokens(job, job.first_index);
    send(job.owner, *job.finished);
  }
}

Result<void> DecodeCore::admit(const protocol::Reserve& message) const {
  if (draining()) return Error(Reason::draining, "the decode worker is shutting down");
  const std::int64_t length = message.work.length();
  constexpr std::int64_t handed_over_rows = 2;  // see on(Reserve)
  if (!pools().could_fit(length + 1, std::max(limits().plan.chunk_rows, handed_over_rows))) {
    return Error(Reason::prompt_exceeds_pool,
                 "a prompt of " + std::to_string(length) + " tokens is larger than the cache");
  }
  if (jobs().size() >= limits().requests) {
    return Error(Reason::overloaded, "the decode worker holds as many requests as it may");
  }
  return ok();
}

void DecodeCore::on(const OwnerRef& from, const protocol::Reserve& message, Instant arrived,
                    Instant now) {
  const RequestId request = message.key.request;
  if (is_answered(from, message.key, now)) return;
  if (const Result<void> admitted = admit(message); !admitted) {
    return refuse(from, message.key, admitted.error());
  }
  const bool is_next = !space_queue_.must_wait(request, message.prompt_ready, now);
  const Result<bool> placed = is_next ? place(from, message, arrived, now) : Result<bool>(false);
  if (!placed) {
    space_queue_.leave(request);
    return refuse(from, message.key, placed.error());
  }
  if (!*placed) {
    const bool starves = is_next && space_queue_.has_waited_long(request, now);
    space_queue_.refused(request, message.prompt_ready, now);
    if (starves && message.prompt_ready) take_back_a_grant(now);
    return refuse(from, message.key, Error(Reason::no_space, "no free blocks now"));
  }
  space_queue_.leave(request);
}

/// Everything here starts with blocks: only who was preempted has none. It needs its whole length
/// at once, and new reservations would take every block that gets free from under it. It gets them
/// as those that run end, and is given up when it could not fit alone.
bool DecodeCore::a_victim_waits() const {
  const auto& all = table().all();
  return std::any_of(all.begin(), all.end(), [](const auto& entry) {
    return entry.second.phase() == engine::Phase::prefill && entry.second.blocks().empty();
  });
}

/// False when there are not enough blocks for it now.
Result<bool> DecodeCore::place(const OwnerRef& to, const protocol::Reserve& message,
                               Instant arrived, Instant now) {
  BATON_ASSIGN(std::optional<engine::Sequence> sequence, to_compute(message, now));
  if (a_victim_waits()) return false;
  if (sequence) return compute(to, message, std::move(*sequence), arrived);
  std::optional<Space> space = find_space(message.work);
  if (!space) return false;
  grant(to, message, std::move(*space));
  return true;
}

/// The request's sequence when so little of it is not cached that it is computed here; an error
/// that any worker of the model would find in the request.
Result<std::optional<engine::Sequence>> DecodeCore::to_compute(const protocol::Reserve& message,
                                                               Instant now) const {
  std::optional<engine::Sequence> out;
  if (!message.may_compute || limits().prefill_suffix_tokens == 0) return out;
  BATON_ASSIGN(engine::Sequence sequence,
               engine::Sequence::for_prefill(
                   worker::spec_of(message.work, limits(), pools().config().block_positions, now),
                   limits().model));
  const std::int64_t suffix = sequence.length() - sequence.cached_prefix(pools());
  if (suffix <= limits().prefill_suffix_tokens) out.emplace(std::move(sequence));
  return out;
}

/// It holds its cached prefix and the blocks of the rest from now on, and is ours: there is nothing
/// that a commit would have to prove.
bool DecodeCore::compute(const OwnerRef& to, const protocol::Reserve& message,
                         engine::Sequence sequence, Instant arrived) {
  const std::int64_t cached = sequence.cached_prefix(pools());
  if (cached > 0) sequence.take_prefix(pools(), cached);
  if (!sequence.reserve(pools(), cached)) {
    sequence.release(pools());
    return false;
  }
  Job& job = add_job(to, message.key);
  job.owned = true;
  job.local = LocalPrefill{arrived, std::nullopt, sequence.length(), cached};
  job.first_index = static_cast<std::int32_t>(message.work.generated_ids.size());
  if (sequence.uses_prefix_cache()) add(worker::PrefixLookedUp{sequence.length(), cached});
  add_sequence(job, std::move(sequence));
  send(to, protocol::Owned{job.key, job.first_index});
  return true;
}

/// The whole blocks of its beginning that are indexed here, shared, and new ones for the rest.
std::optional<DecodeCore::Space> DecodeCore::find_space(const protocol::Work& work) {
  const std::int64_t length = work.length();
  Space space{{}, std::nullopt, worker::first_needed(length, pools())};
  if (limits().prefix_cache && work.prefix_root) {
    std::vector<TokenId> ids = work.prompt_ids;
    ids.insert(ids.end(), work.generated_ids.begin(), work.generated_ids.end());
    space.chain.emplace(prefix::Key(*work.prefix_root), pools().config().block_positions);
    space.chain->extend(ids);
    space.held_to = pools().take_indexed(space.blocks, space.chain->keys(), space.held_to, length);
  }
  // From the last position of the prompt on: its unit comes even when no later query sees it
  // (handoff::first_needed_unit). Other sequences grow optimistically; this one starts with room
  // for its first tokens.
  const std::int64_t wanted =
      std::min<std::int64_t>(limits().headroom_tokens, work.sampling.max_tokens);
  if (pools().extend(space.blocks, {length - 1, length + 1, length + wanted}) ||
      pools().extend(space.blocks, {length - 1, length + 1, length + 1})) {
    return space;
  }
  pools().release(space.blocks);
  return std::nullopt;
}

void DecodeCore::grant(const OwnerRef& to, const protocol::Reserve& message, Space space) {
  Job& job = add_job(to, message.key);
  job.work = message.work;
  job.prompt_ready = message.prompt_ready;
  job.first_index = static_cast<std::int32_t>(message.work.generated_ids.size());
  job.blocks = std::move(space.blocks);
  job.chain = std::move(space.chain);
  job.grant =
      worker::grant_of(next_grant_++, message.work.length(), job.blocks, pools(), space.held_to);
  job.held_tokens = held_tokens_of(job.grant, space.held_to);
  if (job.chain) add(worker::PrefixLookedUp{job.grant.length, job.held_tokens});
  by_grant_[job.grant.id] = job.key.request;
  pin(job.grant.id, job.blocks, job.grant.length);
  command(handoff::OpenGrant{job.key, job.grant, worker::local_blocks(job.blocks, pools())});
  send(to, protocol::Granted{job.key, job.grant});
}

/// Prompts that wait for a grant fill a prefill worker's cache, grants of prompts that wait for
/// that cache fill ours: neither would ever go on. A prompt that is not computed loses little.
void DecodeCore::take_back_a_grant(Instant now) {
  Job* youngest = nullptr;
  for (auto& [request, job] : jobs()) {
    if (job.owned || job.prompt_ready) continue;
    if (youngest == nullptr || job.grant.id > youngest->grant.id) youngest = &job;
  }
  if (youngest == nullptr) return;
  const OwnerRef owner = youngest->owner;
  const AttemptKey key = youngest->key;
  end(key.request, key, now);
  refuse(owner, key, Error(Reason::no_space, "the blocks went to a prompt that is computed"));
}

void DecodeCore::on(const OwnerRef& from, const protocol::Resume& message) {
  const Job* job = job_of(message.key.request);
  if (job == nullptr) return send(from, protocol::Gone{message.key});
  if (job->key != message.key || !job->owned) return;
  send_tokens(*job, message.next_index);
  if (job->finished) send(from, *job->finished);
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
  if (job.local) out.cached_tokens = job.local->cached_tokens;
  return out;
}

/// Of decoding nothing before the first row has ended.
protocol::PhaseTimes DecodeCore::times_of(const Job& job, Instant decoded_until) {
  protocol::PhaseTimes times;
  if (job.local && job.local->started && !job.ids.empty()) {
    times.queue = *job.local->started - job.local->received;
    times.prefill = job.accepted - *job.local->started;
  }
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
    add(worker::ToPair{event.link,
                       protocol::CommitRefused{
                           event.commit.key, Reason::released, "the request has ended here", {}}});
    return;
  }
  Job& job = *job_of(request->second);
  engine::SequenceSpec spec =
      worker::spec_of(job.work, limits(), pools().config().block_positions, now);
  spec.generated.insert(spec.generated.end(), event.commit.tokens.ids.begin(),
                        event.commit.tokens.ids.end());
  spec.prefix = std::exchange(job.chain, std::nullopt);
  Result<engine::Sequence> sequence =
      has_facts_asked_for(event.commit.tokens, job.work.sampling)
          ? engine::Sequence::for_decode(std::move(spec), limits().model, event.commit.length,
                                         job.blocks, pools(),
                                         worker::first_needed(event.commit.length, pools()))
          : Error(Reason::protocol_violation, "the first token brings other facts than asked for");
  if (!sequence) {
    count(Countable::handoff_failed, sequence.error().reason());
    add(worker::ToPair{
        event.link,
        protocol::CommitRefused{
            event.commit.key, sequence.error().reason(), sequence.error().message(), {}}});
    return;
  }
  start(job, event, std::move(*sequence), now);
}

void DecodeCore::start(Job& job, const handoff::CommitVerified& event, engine::Sequence sequence,
                       Instant now) {
  add_sequence(job, std::move(sequence));
  table().find(*job.sequence)->seal(pools());
  job.owned = true;
  job.committed = event.arrived;
  job.accepted = now;
  const protocol::Tokens& first = event.commit.tokens;
  job.ids = first.ids;
  job.digests = first.digests;
  job.logprobs = first.logprobs;
  add(worker::ToPair{event.link, protocol::Accepted{event.commit.key}});
  count(Countable::handoff_accepted);
  add(worker::PromptReady{0, job.held_tokens, event.commit.length - job.held_tokens});
  send(job.owner, protocol::Owned{job.key, job.first_index});
  send(job.owner, tokens_from(job, job.first_index));
  by_grant_.erase(job.grant.id);
  command(handoff::CloseGrant{job.grant.id});
}

void DecodeCore::on(const handoff::GrantClosed& event, Instant) { unpin(event.grant); }

void DecodeCore::on(const handoff::HeldUnitsDiffer& event, Instant) {
  const auto request = by_grant_.find(event.grant);
  if (request != by_grant_.end()) pools().forget(job_of(request->second)->blocks);
}

// ---- steps ----

engine::StepPlan DecodeCore::next_step(Instant now) {
  engine::PlanDecision decision = engine::plan_mixed(table(), pools(), rates(), limits().plan);
  for (engine::SequenceId id : decision.preempt) {
    table().find(id)->preempt(pools());
    count(Countable::preempted, Reason::no_space);
  }
  fail_all(decision.cannot_grow,
           Error(Reason::cannot_grow, "the cache has no room for another token"), now);
  begin_step(std::move(decision.step));
  for (const engine::PrefillRows& rows : step().prefill) {
    Job* job = job_of(rows.sequence);
    if (job != nullptr && job->local && !job->local->started) job->local->started = now;
  }
  return step();
}

void DecodeCore::note_first_step(const engine::StepPlan& step, Instant now) {
  for (const engine::DecodeRow& row : step.decode) {
    Job* job = job_of(row.sequence);
    if (job == nullptr || job->first_row) continue;
    job->first_row = now;
    job->facts.first_step_rows = 1;
    job->facts.cache_before = row.position;
    job->facts.cache_after = table().find(row.sequence)->cached();
  }
}

void DecodeCore::computed(const engine::StepPlan& step, const engine::StepEvents& events,
                          Instant now) {
  note_first_step(step, now);
  for (const engine::PrefillRows& rows : events.chunks) {
    Job* job = job_of(rows.sequence);
    if (job == nullptr) continue;
    if (job->local && job->ids.empty()) {
      job->facts.prompt_rows += rows.count;
    } else {
      job->facts.recomputed_rows += static_cast<std::int32_t>(rows.count);  // after a preemption
    }
  }
}

void DecodeCore::sampled(Job& job, const engine::TokenEvent& event, Instant now) {
  const std::int32_t index = job.first_index + static_cast<std::int32_t>(job.ids.size());
  if (job.local && job.ids.empty()) {
    job.committed = job.accepted = now;
    const std::int64_t cached = job.local->cached_tokens;
    add(worker::PromptReady{job.local->length - cached, cached, 0});
  }
  job.ids.push_back(event.id);
  job.last_row = now;
  if (event.logits_digest) job.digests.push_back(*event.logits_digest);
  if (event.logprobs) job.logprobs.push_back(worker::logprob_of(*event.logprobs));
  send(job.owner, tokens_from(job, index));
  if (!event.finish) return;
  const bool stop = event.finish == engine::Finish::stop;
  finish(job, stop ? FinishReason::stop : FinishReason::length, Error(), now);
}

void DecodeCore::failed(Job& job, const Error& error, Instant now) {
  finish(job, FinishReason::error, error, now);
}

void DecodeCore::finish(Job& job, FinishReason finish, const Error& error, Instant now) {
  protocol::Finished finished;
  finished.key = job.key;
  finished.finish = finish;
  const bool is_error = finish == FinishReason::error;
  if (is_error) {
    finished.reason = error.reason();
    finished.message = error.message();
  }
  finished.tokens = job.first_index + static_cast<std::int32_t>(job.ids.size());
  finished.times = times_of(job, now);
  finished.facts = job.facts;
  job.finished = finished;
  send(job.owner, finished);
  count(is_error ? Countable::request_failed : Countable::request_finished, error.reason());
  give_back(job);
}

/// Blocks of a grant stay in quarantine (pinned by it) until the receiver has closed it.
void DecodeCore::give_back(Job& job) {
  if (by_grant_.erase(job.grant.id) > 0) command(handoff::CloseGrant{job.grant.id});
  pools().release(job.blocks);
  give_back_sequence(job);
}

protocol::Load DecodeCore::load() const {
  protocol::Load load = base_load();
  if (a_victim_waits()) load.free_tokens = 0;  // for whom the router would send
  for (const auto& [request, job] : jobs()) {
    if (job.finished) continue;
    const bool waits = job.local ? !job.local->started : !job.owned;
    ++(waits ? load.queued : load.running);
  }
  load.handoffs = static_cast<std::int32_t>(by_grant_.size());
  return load;
}

}  // namespace baton::decode_node
