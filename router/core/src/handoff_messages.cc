// The handoff table's answers to what workers say.
#include <algorithm>
#include <utility>

#include "baton/router/core/handoff_table.h"

namespace baton::router {

using protocol::AttemptKey;
using protocol::FinishReason;

namespace {

/// What is said about `attempt` holds for `other`, too.
bool covers(const Attempt& attempt, const Attempt& other) {
  return attempt.prefill_leg >= other.prefill_leg && attempt.decode_leg >= other.decode_leg;
}

/// At the second inventory in a row that does not list something: the first may have been made
/// before our message arrived, the second was made a whole period later.
bool is_forgotten(bool is_listed, int& missed) {
  missed = is_listed ? 0 : missed + 1;
  return missed > 1;
}

}  // namespace

void HandoffTable::message(const WorkerRef& from, protocol::Message message, Instant now) {
  std::visit([&](const auto& each) { on(from, each, now); }, message);
}

HandoffTable::Entry* HandoffTable::find_current(const WorkerRef& from, const AttemptKey& key) {
  const auto found = entries_.find(key.request);
  if (found == entries_.end()) return nullptr;
  Entry& entry = found->second;
  if (entry.prefill == from && key.attempt.prefill_leg == entry.attempt.prefill_leg) return &entry;
  if (entry.decode == from && key.attempt.decode_leg == entry.attempt.decode_leg) return &entry;
  return nullptr;
}

/// A worker speaks of an attempt that is not current: whatever it holds is not wanted any more.
void HandoffTable::answer_stale(const WorkerRef& from, const AttemptKey& key, Instant now) {
  const auto found = entries_.find(key.request);
  if (found != entries_.end() && (found->second.prefill == from || found->second.decode == from)) {
    return;  // its newer leg has ended the older one there
  }
  const auto debt = debts_.find({from, key.request});
  if (debt != debts_.end() && covers(debt->second.attempt, key.attempt)) return;
  owe(from, protocol::Cancel{key}, now);
}

void HandoffTable::on(const WorkerRef& from, const protocol::Granted& message, Instant now) {
  Entry* entry = find_current(from, message.key);
  if (entry == nullptr || entry->decode != from) return answer_stale(from, message.key, now);
  if (entry->grant) return;
  const RequestId id = message.key.request;
  if (message.grant.length != need_of(*entry).tokens) {
    new_decode_leg(id, *entry, Reason::length_mismatch, "the grant has another length", now);
    return;
  }
  if (!entry->prefill && !place_prefill(id, *entry, now)) return;
  entry->grant = message.grant;
  entry->short_since.reset();
  entry->waits_at.reset();
  leave_queues(id, *entry, now);
  if (entry->state == State::placed) entry->state = State::prefilling;
  entry->state_deadline = now + limits_.handoff_wait;
  send_target_if_ready(id, *entry, now);
}

/// A worker takes what was generated before for a part of the prompt; the client sent less.
std::string HandoffTable::outgrown_text(const Entry& entry, const WorkerRef& worker) const {
  const Worker* known = workers_.find(worker.node);
  const std::int64_t holds = known == nullptr ? 0 : known->info.cache_tokens;
  return "the request has outgrown the cache: a prompt of " +
         std::to_string(entry.submission.work.prompt_ids.size()) + " tokens and " +
         std::to_string(entry.base) + " generated ones do not fit " + worker.node.value() +
         (holds > 0 ? ", which holds " + std::to_string(holds) : "");
}

void HandoffTable::on(const WorkerRef& from, const protocol::Refused& message, Instant now) {
  Entry* entry = find_current(from, message.key);
  if (entry == nullptr) return;
  const RequestId id = message.key.request;
  if (message.reason == Reason::prompt_exceeds_pool && entry->base > 0) {
    return fail(id, Reason::cannot_grow, outgrown_text(*entry, from), now);
  }
  if (info(message.reason).retry == Retry::never && message.reason != Reason::stale_attempt) {
    fail(id, message.reason, message.message, now);
    return;
  }
  if (entry->prefill == from) {
    entry->avoid.insert(from.node);
    new_attempt(id, *entry, message.reason, message.message, now);
    return;
  }
  // The decode worker has no room (or will not): another one now, or the same one later. A grant is
  // taken back for a request whose prompt is computed already.
  if (entry->state == State::decoding) return;
  forget_grant(*entry);
  entry->short_since = entry->short_since.value_or(now);
  entry->avoid.insert(from.node);
  ++entry->attempt.decode_leg;
  entry->decode = next_decode(*entry, from, message.reason, now);
  const bool refused_before = entry->avoid.contains(entry->decode->node);
  if (refused_before) leave_queues(id, *entry, now);
  const bool keeps_place = !refused_before || entry->decode == from;
  if (message.reason == Reason::no_space && keeps_place) entry->queues.insert(from);
  constexpr std::int64_t shortest_ms = 10;
  constexpr std::int64_t longest_ms = 1000;
  const Duration hint =
      std::chrono::milliseconds(std::clamp(message.retry_after_ms, shortest_ms, longest_ms));
  entry->reserve_at = refused_before ? now + hint : now;
}

/// Who is asked after `from` refused: one that was not asked yet. Once all have refused for space
/// it waits at one. In the queues of several, it would keep the blocks that get free at each while
/// it asks another; and a queue that it leaves for another forgets how long it has waited. So it
/// moves only to one that says it has room, or when half of its time is over.
WorkerRef HandoffTable::next_decode(Entry& entry, const WorkerRef& from, Reason reason,
                                    Instant now) {
  constexpr Duration report_age = std::chrono::milliseconds(500);
  PlacementNeed need = need_of(entry);
  WorkerRef untried = workers_.place_decode(need, random_).value_or(from);
  if (!need.avoid.contains(untried.node)) return untried;
  need.avoid = {from.node};
  WorkerRef other = workers_.place_decode(need, random_).value_or(from);
  if (reason != Reason::no_space) return other;
  if (entry.waits_at != from) {
    // Where the last refusal came from: others that wait were spread by their first choice.
    entry.waits_at = from;
    entry.waits_since = now;
    return from;
  }
  const Duration stay = now - entry.waits_since;
  const bool moves = stay >= limits_.space_wait / 2 ||
                     (stay >= report_age && workers_.says_it_has_room(other, need));
  return moves ? other : from;
}

void HandoffTable::on(const WorkerRef& from, const protocol::Tokens& message, Instant now) {
  Entry* entry = find_current(from, message.key);
  if (entry == nullptr) return answer_stale(from, message.key, now);
  const RequestId id = message.key.request;
  const bool computed =
      !message.ids.empty() && (entry->prefill == from || entry->computed_by_decode);
  if (computed && !std::exchange(entry->token_of_attempt, true)) {
    entry->facts.times.queue += message.times.queue;
    entry->facts.times.prefill += message.times.prefill;
    remember_prefix(*entry, from);
    if (entry->base == 0) {  // later attempts find what the request itself has left
      const auto prompt = std::ssize(entry->submission.work.prompt_ids);
      entry->facts.cached_tokens = std::min<std::int64_t>(message.cached_tokens, prompt);
    }
    if (entry->state == State::placed || entry->state == State::prefilling) {
      entry->state = State::transferring;
      entry->state_deadline = now + limits_.handoff_wait;
    }
  }
  if (entry->decode == from && message.times.first_decode > Duration{}) {
    take_decode_times(*entry, message.times);
  }
  take_tokens(id, *entry, message, now);
}

/// The decode node tells the sums of its attempt, the newest last.
void HandoffTable::take_decode_times(Entry& entry, const protocol::PhaseTimes& times) {
  entry.facts.times.first_decode = entry.earlier.first_decode + times.first_decode;
  entry.facts.times.decode = entry.earlier.decode + times.decode;
  entry.facts.times.commit_held = entry.earlier.commit_held + times.commit_held;
}

void HandoffTable::take_tokens(RequestId id, Entry& entry, const protocol::Tokens& message,
                               Instant now) {
  DeliverTokens out{id, static_cast<std::int32_t>(entry.generated.size()), {}};
  bool gap_before = false;
  for (std::size_t i = 0; i < message.ids.size(); ++i) {
    const std::int64_t index = message.first_index + static_cast<std::int64_t>(i);
    const auto next = static_cast<std::int64_t>(entry.generated.size());
    if (index < next) continue;  // had already
    gap_before = gap_before || index > next;
    Delivered token{message.ids[i], std::nullopt, std::nullopt};
    if (!message.digests.empty()) token.digest = message.digests[i];
    if (!message.logprobs.empty()) token.logprob = message.logprobs[i];
    if (index == next) {
      entry.generated.push_back(token.id);
      out.tokens.push_back(std::move(token));
    } else if (index - next <= static_cast<std::int64_t>(limits_.early_tokens)) {
      entry.early.emplace(static_cast<std::int32_t>(index), std::move(token));
    }
  }
  if (!out.tokens.empty()) {
    entry.attempts_without_token = 0;
    if (entry.state == State::decoding) entry.state_deadline = now + limits_.token_wait;
    effects_.push_back(std::move(out));
  }
  deliver_early(id, entry);
  // A gap is asked for once; when the answer is lost with its connection, the next one asks again.
  const auto gap = static_cast<std::int32_t>(entry.generated.size());
  // Also when what came is too early to be kept.
  if (!(gap_before || !entry.early.empty()) || !entry.decode || entry.resumed_at == gap) return;
  entry.resumed_at = gap;
  send(*entry.decode, protocol::Resume{key_of(id, entry), gap});
}

void HandoffTable::deliver_early(RequestId id, Entry& entry) {
  DeliverTokens out{id, static_cast<std::int32_t>(entry.generated.size()), {}};
  while (!entry.early.empty()) {
    const auto first = entry.early.begin();
    const auto next = static_cast<std::int32_t>(entry.generated.size());
    if (first->first > next) break;
    if (first->first == next) {
      entry.generated.push_back(first->second.id);
      out.tokens.push_back(std::move(first->second));
    }
    entry.early.erase(first);
  }
  if (!out.tokens.empty()) effects_.push_back(std::move(out));
}

void HandoffTable::on(const WorkerRef& from, const protocol::Finished& message, Instant now) {
  Entry* entry = find_current(from, message.key);
  const RequestId id = message.key.request;
  if (entry == nullptr) {
    owe(from, protocol::Release{message.key}, now);
    return;
  }
  if (message.finish == FinishReason::error || message.finish == FinishReason::cancelled) {
    const Reason reason =
        message.finish == FinishReason::cancelled ? Reason::lease_expired : message.reason;
    if (info(reason).retry == Retry::never) return fail(id, reason, message.message, now);
    new_attempt(id, *entry, reason, message.message, now);
    return;
  }
  if (message.tokens > static_cast<std::int32_t>(entry->generated.size())) {
    send(from,
         protocol::Resume{key_of(id, *entry), static_cast<std::int32_t>(entry->generated.size())});
    return;
  }
  if (entry->prefill == from && entry->state != State::decoding) {
    entry->facts.prefill = message.facts;
    finish(id, message.finish, std::nullopt, now);
    return;
  }
  if (entry->ended_at) return;
  if (entry->decode) remember_prefix(*entry, *entry->decode);
  entry->facts.decode = message.facts;
  take_decode_times(*entry, message.times);
  if (entry->handoff_known || !entry->prefill) {
    finish(id, message.finish, std::nullopt, now);
  } else {
    entry->ended_at = now;
    entry->finish = message.finish;
  }
}

void HandoffTable::on(const WorkerRef& from, const protocol::Owned& message, Instant now) {
  Entry* entry = find_current(from, message.key);
  if (entry == nullptr || entry->decode != from) return answer_stale(from, message.key, now);
  if (entry->state == State::decoding) return;
  entry->state = State::decoding;
  watch_workers(*entry, now);
  entry->state_deadline = now + limits_.token_wait;
  remember_prefix(*entry, from);
  if (!entry->prefill) return computed_by(from, message.key.request, *entry, now);
  if (entry->handoff_known) return release_prefill(message.key.request, *entry, now);
  if (entry->prefill && !workers_.is_up(*entry->prefill)) {
    const WorkerRef lost = *entry->prefill;  // it will not say how the handoff ended
    worker_lost(message.key.request, *entry, lost, false, now);
  }
}

/// No handoff comes; how long the prompt takes only the request's deadline bounds.
void HandoffTable::computed_by(const WorkerRef& decode, RequestId id, Entry& entry, Instant now) {
  entry.computed_by_decode = true;
  entry.handoff_known = true;
  entry.facts.prefill_node = decode.node;
  entry.short_since.reset();
  entry.waits_at.reset();
  entry.state_deadline = entry.submission.deadline;
  leave_queues(id, entry, now);
}

void HandoffTable::release_prefill(RequestId id, Entry& entry, Instant now) {
  if (!entry.prefill) return;
  owe(*entry.prefill, protocol::Release{key_of(id, entry)}, now);
  entry.prefill.reset();
}

void HandoffTable::on(const WorkerRef& from, const protocol::HandoffEnded& message, Instant now) {
  Entry* entry = find_current(from, message.key);
  if (entry == nullptr) return answer_stale(from, message.key, now);
  if (message.key.attempt != entry->attempt || entry->handoff_known) return;
  const RequestId id = message.key.request;
  if (message.accepted) {
    entry->handoff_known = true;
    entry->facts.handoff = message.facts;
    entry->facts.times.handoff_exposed += message.facts.exposed;
    entry->facts.commit_answered += message.facts.answered;
    effects_.push_back(HandoffDone{message.facts});
    if (entry->ended_at) return finish(id, entry->finish, std::nullopt, now);
    if (entry->state == State::decoding) release_prefill(id, *entry, now);
    return;
  }
  effects_.push_back(HandoffFailed{message.reason});
  if (entry->state == State::decoding || entry->ended_at) {
    entry->handoff_known = true;  // the answer was lost, not the commit
    if (entry->ended_at) return finish(id, entry->finish, std::nullopt, now);
    return release_prefill(id, *entry, now);
  }
  if (message.reason == Reason::released) {
    new_attempt(id, *entry, message.reason, message.message, now);
  } else {
    new_decode_leg(id, *entry, message.reason, message.message, now);
  }
}

void HandoffTable::on(const WorkerRef& from, const protocol::Gone& message, Instant now) {
  const auto debt = debts_.find({from, message.key.request});
  if (debt != debts_.end()) {
    // A late answer about an earlier attempt says nothing about what this debt is for.
    if (covers(message.key.attempt, debt->second.attempt)) debts_.erase(debt);
    return;
  }
  Entry* entry = find_current(from, message.key);
  if (entry == nullptr || message.key.attempt != entry->attempt || entry->ended_at) return;
  // The worker holds nothing of a request that we count on: its lease ran out there.
  new_attempt(message.key.request, *entry, Reason::lease_expired,
              "a worker no longer holds the request", now);
}

void HandoffTable::on(const WorkerRef& from, const protocol::Report& message, Instant now) {
  workers_.report(from, message, now);
}

void HandoffTable::on(const WorkerRef& from, const protocol::Inventory& message, Instant now) {
  protocol::Unknown unknown;
  for (const AttemptKey& key : message.keys) {
    const auto debt = debts_.find({from, key.request});
    const auto entry = entries_.find(key.request);
    // While it takes part with a newer leg, that leg is on its way there.
    const bool takes_part =
        entry != entries_.end() && (entry->second.prefill == from || entry->second.decode == from);
    if (debt != debts_.end()) {
      send(from, debt->second.message);
    } else if (!takes_part) {
      unknown.keys.push_back(key);
    }
  }
  if (!unknown.keys.empty()) send(from, std::move(unknown));
  find_forgotten(from, message, now);
}

/// What we count on and the worker does not list, it has forgotten.
void HandoffTable::find_forgotten(const WorkerRef& from, const protocol::Inventory& message,
                                  Instant now) {
  std::map<RequestId, Attempt> listed;
  for (const AttemptKey& key : message.keys) listed[key.request] = key.attempt;
  for (RequestId id : ids()) {
    const auto found = entries_.find(id);
    if (found == entries_.end()) continue;
    Entry& entry = found->second;
    const auto at = listed.find(id);
    const Attempt held = at == listed.end() ? Attempt{0, 0} : at->second;
    const bool prefills = entry.prefill == from && !entry.token_of_attempt;
    const bool has_part = entry.grant || entry.state == State::decoding;
    const bool decodes = entry.decode == from && has_part && !entry.ended_at;
    if (prefills &&
        is_forgotten(held.prefill_leg == entry.attempt.prefill_leg, entry.prefill_missed)) {
      new_attempt(id, entry, Reason::worker_lost, "the prefill worker forgot the request", now);
    } else if (decodes &&
               is_forgotten(held.decode_leg == entry.attempt.decode_leg, entry.decode_missed)) {
      decode_forgot(id, entry, now);
    }
  }
}

void HandoffTable::decode_forgot(RequestId id, Entry& entry, Instant now) {
  constexpr const char* forgot = "the decode worker forgot the request";
  if (entry.state == State::decoding) {
    new_attempt(id, entry, Reason::worker_lost, forgot, now);
  } else {
    new_decode_leg(id, entry, Reason::worker_lost, forgot, now);
  }
}

}  // namespace baton::router
