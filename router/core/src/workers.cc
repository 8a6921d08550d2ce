#include "baton/router/core/workers.h"

#include <algorithm>

namespace baton::router {

using protocol::Role;

namespace {

// A report is made on the worker at most this long before it arrives; younger placements may be
// missing from it.
constexpr Duration report_age = std::chrono::milliseconds(100);

/// Cost in tokens.
using Candidate = std::pair<std::int64_t, WorkerRef>;

bool by_cost(const Candidate& a, const Candidate& b) { return a.first < b.first; }

/// How much worse than the best one a worker may be, so that replicas do not all pick the best:
/// half of what is left to compute, but less than what the best has cached and another has not.
std::int64_t slack_of(const PlacementNeed& need, const Candidate& best,
                      const std::vector<Candidate>& candidates) {
  std::int64_t least_cached = need.tokens;
  for (const Candidate& each : candidates) {
    least_cached = std::min(least_cached, need.cached_at(each.second.node));
  }
  const std::int64_t cached = need.cached_at(best.second.node);
  const std::int64_t slack = std::max((need.tokens - cached) / 2, best.first / 20);
  const std::int64_t lead = cached - least_cached;
  return lead > 0 ? std::min(slack, lead - 1) : slack;
}

}  // namespace

bool Workers::came_up(Worker worker) {
  Worker& known = workers_[worker.node];
  const bool new_life = known.epoch != worker.epoch;
  if (new_life) pending_.erase(worker.node);
  worker.up = true;
  known = std::move(worker);
  return new_life;
}

void Workers::went_down(const WorkerRef& worker, Instant now) {
  const auto found = workers_.find(worker.node);
  if (found == workers_.end() || found->second.epoch != worker.epoch || !found->second.up) return;
  found->second.up = false;
  found->second.down_since = now;
}

void Workers::report(const WorkerRef& worker, const protocol::Report& report, Instant now) {
  const auto found = workers_.find(worker.node);
  if (found == workers_.end() || found->second.epoch != worker.epoch) return;
  found->second.load = report.load;
  found->second.draining = report.draining;
  std::erase_if(pending_[worker.node],
                [now](const Pending& entry) { return now - entry.since > report_age; });
}

void Workers::forget_lost(Instant now, Duration age) {
  std::erase_if(workers_, [&](const auto& entry) {
    const bool lost = !entry.second.up && now - entry.second.down_since >= age;
    if (lost) pending_.erase(entry.first);
    return lost;
  });
}

const Worker* Workers::find(const NodeId& node) const {
  const auto found = workers_.find(node);
  return found == workers_.end() ? nullptr : &found->second;
}

bool Workers::is_up(const WorkerRef& worker) const {
  const Worker* found = find(worker.node);
  return found != nullptr && found->epoch == worker.epoch && found->up;
}

void Workers::placed(const WorkerRef& worker, std::int64_t tokens, Instant now) {
  pending_[worker.node].push_back({tokens, now});
}

std::int64_t Workers::pending(const NodeId& node) const {
  const auto found = pending_.find(node);
  if (found == pending_.end()) return 0;
  std::int64_t total = 0;
  for (const Pending& entry : found->second) total += entry.tokens;
  return total;
}

bool Workers::holds(const Worker& worker, const PlacementNeed& need) {
  // A decode node writes the next position as well.
  const std::int64_t positions = need.tokens + (worker.role == Role::decode ? 1 : 0);
  return worker.info.cache_tokens == 0 || positions <= worker.info.cache_tokens;
}

bool Workers::says_it_has_room(const WorkerRef& worker, const PlacementNeed& need) const {
  const Worker* found = find(worker.node);
  return found != nullptr &&
         found->load.free_tokens - pending(worker.node) > need.left_at(worker.node);
}

std::vector<const Worker*> Workers::able(Role role, const Digest256& fingerprint,
                                         const PlacementNeed& need) const {
  std::vector<const Worker*> out;
  bool some_hold = false;
  for (const auto& [node, worker] : workers_) {
    if (worker.role != role || worker.fingerprint != fingerprint) continue;
    out.push_back(&worker);
    some_hold = some_hold || holds(worker, need);
  }
  std::erase_if(out, [&](const Worker* worker) {
    return !takes_work(*worker) || (some_hold && !holds(*worker, need));
  });
  return out;
}

std::vector<const Worker*> Workers::able_to_decode(const Digest256& fingerprint,
                                                   const PlacementNeed& need) const {
  std::vector<const Worker*> out = able(Role::decode, fingerprint, need);
  if (need.has_prefill || !able(Role::prefill, fingerprint, need).empty()) return out;
  std::erase_if(out, [&](const Worker* worker) {
    return worker->info.prefill_suffix_tokens < std::max<std::int64_t>(need.tokens, 1);
  });
  return out;
}

bool Workers::may_compute(const WorkerRef& worker, const PlacementNeed& need) const {
  const std::int64_t most = find(worker.node)->info.prefill_suffix_tokens;
  return most > 0 && need.left_at(worker.node) <= most;
}

bool Workers::prefixes_matter() const {
  std::map<Role, int> count;
  for (const auto& [node, worker] : workers_) {
    if (++count[worker.role] > 1 || worker.info.prefill_suffix_tokens > 0) return true;
  }
  return false;
}

std::optional<WorkerRef> Workers::pick(const std::vector<const Worker*>& workers,
                                       const PlacementNeed& need, std::mt19937_64& random) const {
  // The prompts before us, and on decode workers how full the pool would be.
  std::vector<Candidate> candidates;
  std::vector<Candidate> avoided;
  for (const Worker* worker : workers) {
    const protocol::Load& load = worker->load;
    const std::int64_t used =
        worker->role == Role::decode ? load.capacity_tokens - load.free_tokens : 0;
    const Candidate entry{
        load.backlog_tokens + used + pending(worker->node) - need.cached_at(worker->node),
        {worker->node, worker->epoch}};
    (need.avoid.contains(worker->node) ? avoided : candidates).push_back(entry);
  }
  if (candidates.empty()) candidates.swap(avoided);
  if (candidates.empty()) return std::nullopt;
  const auto best = std::min_element(candidates.begin(), candidates.end(), by_cost);
  const std::int64_t most = best->first + slack_of(need, *best, candidates);
  std::erase_if(candidates, [most](const Candidate& entry) { return entry.first > most; });
  return candidates[random() % candidates.size()].second;
}

std::optional<Placement> Workers::place(PlacementNeed need, std::mt19937_64& random) const {
  need.has_prefill = false;  // it begins anew
  std::set<Digest256> fingerprints;
  for (const auto& [node, worker] : workers_) {
    if (fingerprints.contains(worker.fingerprint)) continue;
    if (need.fingerprint && worker.fingerprint != *need.fingerprint) continue;
    const bool prefills = !able(Role::prefill, worker.fingerprint, need).empty();
    const bool needs_decode = need.needs_decode || !prefills;
    if (needs_decode && able_to_decode(worker.fingerprint, need).empty()) continue;
    fingerprints.insert(worker.fingerprint);
  }
  if (fingerprints.empty()) return std::nullopt;
  Placement out;
  out.fingerprint =
      *std::next(fingerprints.begin(), static_cast<std::ptrdiff_t>(random() % fingerprints.size()));
  const std::vector<const Worker*> prefills = able(Role::prefill, out.fingerprint, need);
  if (need.needs_decode || prefills.empty()) {
    out.decode = pick(able_to_decode(out.fingerprint, need), need, random);
  }
  const bool alone = out.decode && may_compute(*out.decode, need);
  if (!alone) out.prefill = pick(prefills, need, random);
  return out;
}

std::optional<WorkerRef> Workers::place_prefill(const PlacementNeed& need,
                                                std::mt19937_64& random) const {
  return pick(able(Role::prefill, *need.fingerprint, need), need, random);
}

std::optional<WorkerRef> Workers::place_decode(const PlacementNeed& need,
                                               std::mt19937_64& random) const {
  return pick(able_to_decode(*need.fingerprint, need), need, random);
}

}  // namespace baton::router
