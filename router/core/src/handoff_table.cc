#include "baton/router/core/handoff_table.h"

#include <algorithm>
#include <utility>

#include "baton/base/check.h"
#include "baton/prefix/chain.h"

namespace baton::router {

using protocol::AttemptKey;
using protocol::FinishReason;

HandoffTable::HandoffTable(TableLimits limits, std::uint64_t seed, std::string prefix_secret)
    : limits_(limits), random_(seed), prefix_secret_(std::move(prefix_secret)) {}

std::vector<TableEffect> HandoffTable::take_effects() { return std::exchange(effects_, {}); }

std::vector<RequestId> HandoffTable::ids() const {
  std::vector<RequestId> out;
  out.reserve(entries_.size());
  for (const auto& [id, entry] : entries_) out.push_back(id);
  return out;
}

const RequestFacts* HandoffTable::facts(RequestId request) const {
  const auto found = entries_.find(request);
  return found == entries_.end() ? nullptr : &found->second.facts;
}

std::size_t HandoffTable::handoffs_in_flight() const {
  return static_cast<std::size_t>(
      std::count_if(entries_.begin(), entries_.end(), [](const auto& each) {
        return each.second.target_sent && each.second.state != State::decoding;
      }));
}

// ---- admission and placement ----

Result<void> HandoffTable::submit(Submission submission, Instant now) {
  if (entries_.size() >= limits_.requests || queue_.size() >= limits_.queue) {
    return Error(Reason::overloaded, "the router has as many requests as it may hold; try again");
  }
  const RequestId id = submission.id;
  BATON_CHECK(!entries_.contains(id));
  Entry& entry = entries_[id];
  entry.submission = std::move(submission);
  entry.generated = entry.submission.work.generated_ids;
  entry.base = entry.generated.size();
  entry.queued_since = entry.submission.received;
  entry.state_deadline = now + limits_.queue_wait;
  queue_.insert(id);
  try_place(id, entry, now);
  return ok();
}

void HandoffTable::drop(RequestId request, Instant now) {
  const auto found = entries_.find(request);
  if (found == entries_.end()) return;
  let_go(request, found->second, now);
  queue_.erase(request);
  entries_.erase(found);
}

bool HandoffTable::needs_decode(const Entry& entry) const {
  const auto done = static_cast<std::int32_t>(entry.base);
  return entry.submission.work.sampling.max_tokens - done > 1;
}

PlacementNeed HandoffTable::need_of(const Entry& entry) const {
  PlacementNeed need;
  need.tokens = static_cast<std::int64_t>(entry.submission.work.prompt_ids.size() + entry.base);
  need.needs_decode = needs_decode(entry);
  need.has_prefill = entry.prefill.has_value();
  need.fingerprint = entry.fingerprint;
  need.avoid = entry.avoid;
  need.cached = prefixes_.known(entry.keys.keys());
  return need;
}

/// A prompt is hashed only where it is of use.
void HandoffTable::extend_keys(Entry& entry) const {
  if (!workers_.prefixes_matter()) return;
  const protocol::Work& work = entry.submission.work;
  if (entry.keys.cover(work.prompt_ids.size() + entry.generated.size())) return;
  std::vector<TokenId> ids = work.prompt_ids;
  ids.insert(ids.end(), entry.generated.begin(), entry.generated.end());
  entry.keys.extend(ids);
}

/// The worker has, or will have, the cache of what is known of the request.
void HandoffTable::remember_prefix(Entry& entry, const WorkerRef& worker) {
  const Worker* known = workers_.find(worker.node);
  if (known == nullptr || !known->info.prefix_cache) return;
  extend_keys(entry);
  prefixes_.add(worker, entry.keys.keys(), known->info.cache_tokens);
}

void HandoffTable::try_place(RequestId id, Entry& entry, Instant now) {
  extend_keys(entry);
  const PlacementNeed need = need_of(entry);
  const std::optional<Placement> placement = workers_.place(need, random_);
  if (!placement) return;
  queue_.erase(id);
  entry.fingerprint = placement->fingerprint;
  entry.prefill = placement->prefill;
  entry.decode = placement->decode;
  entry.lost_since.reset();
  entry.state = State::placed;
  count_queued(entry, now);
  if (entry.decode) send_reserve(id, entry, now);
  if (!entry.prefill) return;
  workers_.placed(*entry.prefill, need.left_at(entry.prefill->node), now);
  send_prefill(id, entry, now);
}

/// The decode worker that was asked alone does not compute the prompt.
bool HandoffTable::place_prefill(RequestId id, Entry& entry, Instant now) {
  const PlacementNeed need = need_of(entry);
  entry.prefill = workers_.place_prefill(need, random_);
  if (!entry.prefill) {
    new_attempt(id, entry, Reason::no_worker, "no prefill worker is available", now);
    return false;
  }
  count_queued(entry, now);
  workers_.placed(*entry.prefill, need.left_at(entry.prefill->node), now);
  send_prefill(id, entry, now);
  return true;
}

AttemptKey HandoffTable::key_of(RequestId id, const Entry& entry) const {
  return {id, entry.attempt};
}

protocol::Work HandoffTable::work_of(const Entry& entry, Instant now) const {
  protocol::Work work = entry.submission.work;
  // A leg computes the cache of what was known when the prefill leg began; what that leg sampled
  // comes with the commit.
  work.generated_ids.assign(entry.generated.begin(),
                            entry.generated.begin() + static_cast<std::ptrdiff_t>(entry.base));
  const auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(entry.submission.deadline - now);
  work.deadline_ms = std::max<std::int64_t>(1, left.count());
  // One salt for all: requests of one cluster share their prefixes.
  work.prefix_root = prefix::root(prefix_secret_, *entry.fingerprint, "").value();
  return work;
}

namespace {

std::int64_t in_ms(Duration duration) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(duration).count();
}

}  // namespace

void HandoffTable::send_reserve(RequestId id, Entry& entry, Instant now) {
  entry.reserve_at.reset();
  entry.decode_missed = 0;
  if (!entry.prefill) count_queued(entry, now);
  entry.state_deadline = now + limits_.grant_wait;
  entry.facts.decode_node = entry.decode->node;
  const PlacementNeed need = need_of(entry);
  workers_.placed(*entry.decode, need.left_at(entry.decode->node), now);
  send(*entry.decode,
       protocol::Reserve{key_of(id, entry), work_of(entry, now), in_ms(limits_.lease),
                         entry.token_of_attempt, !entry.prefill.has_value()});
}

void HandoffTable::send_prefill(RequestId id, Entry& entry, Instant now) {
  entry.prefill_missed = 0;
  entry.facts.prefill_node = entry.prefill->node;
  send(*entry.prefill, protocol::Prefill{key_of(id, entry), work_of(entry, now),
                                         in_ms(limits_.lease), needs_decode(entry)});
}

void HandoffTable::send_target_if_ready(RequestId id, Entry& entry, Instant) {
  if (!entry.grant || !entry.prefill || !entry.decode || entry.target_sent) return;
  entry.target_sent = true;
  entry.handoff_known = false;
  send(*entry.prefill,
       protocol::Target{key_of(id, entry), entry.decode->node, entry.decode->epoch, *entry.grant});
}

// ---- new attempts ----

/// The limit keeps a request that brings workers down from taking them all.
bool HandoffTable::may_try_again(RequestId id, Entry& entry, Reason reason,
                                 const std::string& message, Instant now) {
  if (entry.attempts_without_token >= limits_.attempts_without_token) {
    fail(id, reason, message, now);
    return false;
  }
  ++entry.attempts_without_token;
  note_attempt(id, entry, reason);
  return true;
}

void HandoffTable::note_attempt(RequestId id, Entry& entry, Reason reason) {
  ++entry.facts.attempts;
  effects_.push_back(AttemptMade{id, reason});
}

/// All tokens may have been delivered when the worker that would have said so was lost.
bool HandoffTable::finish_if_complete(RequestId id, Entry& entry, Instant now) {
  if (entry.generated.empty()) return false;
  const auto& ends = entry.submission.end_ids;
  const auto most = static_cast<std::size_t>(entry.submission.work.sampling.max_tokens);
  if (std::find(ends.begin(), ends.end(), entry.generated.back()) != ends.end()) {
    finish(id, FinishReason::stop, std::nullopt, now);
  } else if (entry.generated.size() >= most) {
    finish(id, FinishReason::length, std::nullopt, now);
  } else {
    return false;
  }
  return true;
}

void HandoffTable::new_attempt(RequestId id, Entry& entry, Reason reason,
                               const std::string& message, Instant now) {
  if (finish_if_complete(id, entry, now)) return;
  if (!may_try_again(id, entry, reason, message, now)) return;
  let_go(id, entry, now);
  ++entry.attempt.prefill_leg;
  ++entry.attempt.decode_leg;
  entry.base = entry.generated.size();
  entry.prefill.reset();
  entry.decode.reset();
  forget_grant(entry);
  entry.token_of_attempt = false;
  entry.early.clear();
  entry.resumed_at.reset();
  entry.reserve_at.reset();
  entry.earlier = entry.facts.times;
  entry.queued_since = now;
  entry.state = State::queued;
  // The wait for a worker goes on when the new attempt lacks one as well; placement ends it.
  entry.state_deadline =
      entry.lost_since.value_or(now) + std::max(limits_.queue_wait, limits_.reconnect_wait);
  queue_.insert(id);
  try_place(id, entry, now);
}

void HandoffTable::new_decode_leg(RequestId id, Entry& entry, Reason reason,
                                  const std::string& message, Instant now) {
  // Beside a prefill worker, one that had no target has computed nothing: not lost because of it.
  const bool was_idle = reason == Reason::worker_lost && entry.prefill && !entry.target_sent;
  // The prompt gave way to an older one: neither the request nor the decode worker is at fault.
  const bool gave_way = reason == Reason::no_space;
  if (was_idle || gave_way) {
    note_attempt(id, entry, reason);
  } else if (!may_try_again(id, entry, reason, message, now)) {
    return;
  }
  if (entry.decode) {
    owe(*entry.decode, protocol::Cancel{key_of(id, entry)}, now);
    if (!gave_way) entry.avoid.insert(entry.decode->node);
  }
  ++entry.attempt.decode_leg;
  forget_grant(entry);
  entry.resumed_at.reset();
  entry.decode = workers_.place_decode(need_of(entry), random_);
  watch_workers(entry, now);
  if (entry.decode) send_reserve(id, entry, now);
}

bool HandoffTable::others_can_take_over(const Entry& entry) const {
  std::mt19937_64 unused(0);
  return workers_.place(need_of(entry), unused).has_value();
}

/// The worker that the entry cannot go on without and that is not connected.
std::optional<WorkerRef> HandoffTable::lost_worker(const Entry& entry) const {
  const bool prefills = entry.prefill && entry.state != State::decoding;
  if (prefills && !workers_.is_up(*entry.prefill)) return entry.prefill;
  if (entry.decode && !workers_.is_up(*entry.decode)) return entry.decode;
  return std::nullopt;
}

bool HandoffTable::lacks_worker(const Entry& entry) const {
  if (entry.state == State::queued || entry.ended_at) return false;
  const bool wants_decode = needs_decode(entry) || !entry.prefill;
  return lost_worker(entry) || (wants_decode && !entry.decode);
}

/// Starts or ends the wait for workers. It is decided from what is connected, never from the one
/// worker that an event is about: an entry may lack two, and one that returns is not the other.
void HandoffTable::watch_workers(Entry& entry, Instant now) const {
  if (!lacks_worker(entry)) {
    entry.lost_since.reset();
  } else if (!entry.lost_since) {
    entry.lost_since = now;
  }
}

/// A worker came up: it may replace one that the entry has been waiting for.
void HandoffTable::take_over_if_possible(RequestId id, Entry& entry, Instant now) {
  if (!lacks_worker(entry)) return;
  if (const std::optional<WorkerRef> lost = lost_worker(entry)) {
    worker_lost(id, entry, *lost, false, now);
  } else {
    new_decode_leg(id, entry, Reason::worker_lost, "the decode worker was lost", now);
  }
}

// ---- workers ----

void HandoffTable::worker_up(Worker worker, Instant now) {
  const WorkerRef ref{worker.node, worker.epoch};
  const Worker* known = workers_.find(worker.node);
  const std::optional<WorkerRef> before =
      known == nullptr ? std::nullopt : std::optional<WorkerRef>({known->node, known->epoch});
  const bool new_life = workers_.came_up(std::move(worker));
  if (new_life && before) {
    std::erase_if(debts_, [&](const auto& debt) { return debt.first.first == *before; });
    prefixes_.forget(before->node);
    for (RequestId id : ids()) {
      const auto found = entries_.find(id);
      if (found != entries_.end()) worker_lost(id, found->second, *before, true, now);
    }
  }
  for (const auto& [key, debt] : debts_) {
    if (key.first == ref) send(ref, debt.message);
  }
  for (RequestId id : ids()) {
    const auto found = entries_.find(id);
    if (found == entries_.end()) continue;
    Entry& entry = found->second;
    if (entry.state == State::queued) {
      try_place(id, entry, now);
      continue;
    }
    repeat_to(ref, id, entry, now);
    take_over_if_possible(id, entry, now);
  }
}

void HandoffTable::repeat_to(const WorkerRef& worker, RequestId id, Entry& entry, Instant now) {
  watch_workers(entry, now);
  if (entry.prefill == worker) {
    if (!entry.token_of_attempt) send_prefill(id, entry, now);
    if (entry.target_sent && entry.state != State::decoding) {
      entry.target_sent = false;
      send_target_if_ready(id, entry, now);
    }
  }
  if (entry.decode == worker) {
    if (entry.state == State::decoding) {
      entry.decode_missed = 0;
      entry.resumed_at = static_cast<std::int32_t>(entry.generated.size());
      send(worker, protocol::Resume{key_of(id, entry), *entry.resumed_at});
    } else if (!entry.grant) {
      send_reserve(id, entry, now);
    }
  }
}

void HandoffTable::worker_down(const WorkerRef& worker, Instant now) {
  workers_.went_down(worker, now);
  prefixes_.forget(worker.node);
  for (RequestId id : ids()) {
    const auto found = entries_.find(id);
    if (found != entries_.end()) worker_lost(id, found->second, worker, false, now);
  }
}

/// `for_good`: the worker lives a new life, so that waiting for it is pointless.
void HandoffTable::worker_lost(RequestId id, Entry& entry, const WorkerRef& worker, bool for_good,
                               Instant now) {
  const bool prefill_lost = entry.prefill == worker;
  const bool decode_lost = entry.decode == worker;
  if (!prefill_lost && !decode_lost) return;
  if (prefill_lost && entry.state == State::decoding) {
    entry.prefill.reset();
    entry.handoff_known = true;
    if (entry.ended_at) finish(id, entry.finish, std::nullopt, now);
    return;
  }
  if (decode_lost && entry.ended_at) {
    entry.decode.reset();
    return;
  }
  if (!for_good && !others_can_take_over(entry)) return watch_workers(entry, now);
  const std::string message =
      std::string("the ") + (prefill_lost ? "prefill" : "decode") + " worker was lost";
  if (prefill_lost || entry.state == State::decoding) {
    new_attempt(id, entry, Reason::worker_lost, message, now);
  } else {
    new_decode_leg(id, entry, Reason::worker_lost, message, now);
  }
}

// ---- time ----

void HandoffTable::tick(Instant now) {
  workers_.forget_lost(now, limits_.forget_worker);
  std::erase_if(debts_, [now](const auto& debt) { return now >= debt.second.until; });
  for (RequestId id : ids()) {
    const auto found = entries_.find(id);
    if (found != entries_.end()) check_deadlines(id, found->second, now);
  }
}

void HandoffTable::check_deadlines(RequestId id, Entry& entry, Instant now) {
  if (entry.ended_at) {
    if (now - *entry.ended_at >= limits_.facts_wait) finish(id, entry.finish, std::nullopt, now);
    return;
  }
  if (now >= entry.submission.deadline) {
    return fail(id, Reason::deadline_exceeded, "the request's deadline has passed", now);
  }
  watch_workers(entry, now);
  if (entry.lost_since && now - *entry.lost_since >= limits_.reconnect_wait) {
    return fail(id, Reason::worker_lost, "a worker was lost and no other can take over", now);
  }
  if (entry.short_since && now - *entry.short_since >= limits_.space_wait) {
    return fail(id, Reason::overloaded, "no decode worker has room for the request", now);
  }
  if (entry.reserve_at && now >= *entry.reserve_at) send_reserve(id, entry, now);
  if (now < entry.state_deadline || entry.lost_since || entry.reserve_at) return;
  switch (entry.state) {
    case State::queued:
      return fail(id, Reason::no_worker,
                  "no prefill and decode workers of one model are available; try again", now);
    case State::placed:
    case State::prefilling:  // without a wait for a grant, the request's deadline bounds these
      if (entry.decode && !entry.grant) {
        new_decode_leg(id, entry, Reason::deadline_exceeded, "the decode worker did not answer",
                       now);
      }
      return;
    case State::transferring:
      return new_attempt(id, entry, Reason::deadline_exceeded, "the handoff took too long", now);
    case State::decoding:
      return new_attempt(id, entry, Reason::deadline_exceeded,
                         "the decode worker sent no token in time", now);
  }
}

// ---- ends ----

void HandoffTable::end_all(Reason reason, const std::string& message, Instant now) {
  for (RequestId id : ids()) {
    Entry& entry = entries_.at(id);
    if (entry.ended_at) {
      finish(id, entry.finish, std::nullopt, now);
    } else if (!finish_if_complete(id, entry, now)) {
      fail(id, reason, message, now);
    }
  }
}

void HandoffTable::finish(RequestId id, FinishReason finish, std::optional<Error> error,
                          Instant now) {
  const auto found = entries_.find(id);
  BATON_CHECK(found != entries_.end());
  let_go(id, found->second, now);
  effects_.push_back(RequestEnded{id, finish, std::move(error), std::move(found->second.facts)});
  queue_.erase(id);
  entries_.erase(found);
}

/// What the entry's workers hold is cancelled; a worker that has finished is released, which is the
/// same to it.
void HandoffTable::let_go(RequestId id, Entry& entry, Instant now) {
  const AttemptKey key = key_of(id, entry);
  leave_queues(id, entry, now);
  if (entry.prefill) owe(*entry.prefill, protocol::Cancel{key}, now);
  if (entry.decode) owe(*entry.decode, protocol::Cancel{key}, now);
}

/// A place in the queue of a worker that is not wanted any more keeps all later requests there out.
void HandoffTable::leave_queues(RequestId id, Entry& entry, Instant now) {
  for (const WorkerRef& worker : std::exchange(entry.queues, {})) {
    if (worker != entry.decode) owe(worker, protocol::Cancel{key_of(id, entry)}, now);
  }
}

void HandoffTable::owe(const WorkerRef& worker, const protocol::Cancel& cancel, Instant now) {
  owe(worker, cancel, cancel.key, now);
}

void HandoffTable::owe(const WorkerRef& worker, const protocol::Release& release, Instant now) {
  owe(worker, release, release.key, now);
}

void HandoffTable::owe(const WorkerRef& worker, protocol::Message message, const AttemptKey& key,
                       Instant now) {
  debts_[{worker, key.request}] = Debt{message, key.attempt, now + 2 * limits_.lease};
  send(worker, std::move(message));
}

void HandoffTable::send(const WorkerRef& worker, protocol::Message message) {
  if (workers_.is_up(worker)) effects_.push_back(SendTo{worker, std::move(message)});
}

}  // namespace baton::router
