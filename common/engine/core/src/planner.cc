#include "baton/engine/core/planner.h"

#include <algorithm>
#include <initializer_list>
#include <map>
#include <set>
#include <tuple>

namespace baton::engine {
namespace {

// Chunks of a step that is theirs alone end at multiples of this where they can: whole units leave
// for the decode node at once.
constexpr std::int64_t chunk_alignment = 16;
// More rows than were ever measured are predicted in proportion. Beside streams that take most of
// the limit they would never be measured then: up to so many times the streams' rows, twice the
// greatest size is tried, unless the keys that its rows see would take it past the limit.
constexpr std::int64_t few_times = 8;

using Candidate = std::pair<SequenceId, const Sequence*>;
using Candidates = std::vector<Candidate>;

bool starts_before(const Candidate& a, const Candidate& b) {
  return std::tuple(a.second->deadline(), a.second->arrival(), a.first) <
         std::tuple(b.second->deadline(), b.second->arrival(), b.first);
}

class Planner {
 public:
  Planner(const SequenceTable& table, const kvcache::BlockPools& pools, const RateModel& rates,
          const PlanLimits& limits)
      : table_(table), pools_(pools), rates_(rates), limits_(limits) {
    for (int g = 0; g < pools.groups(); ++g) free_.push_back(pools.available_blocks(g));
  }

  void add_decode_rows();
  void add_prefill_rows();
  /// Of those in these phases somebody gives way when the plan has come out empty.
  void break_deadlock(std::initializer_list<Phase> phases);
  /// So many that decode wait for this step: it is as short, and leaves them as many blocks, as if
  /// they were in it.
  void let_wait(std::size_t decoding) { waiting_ = static_cast<std::int64_t>(decoding); }
  PlanDecision finish();

 private:
  Candidates in_phase(Phase phase) const;
  Candidates by_waiting() const;
  Candidates::const_iterator end_of_step(Candidates::const_iterator at,
                                         Candidates::const_iterator end) const;
  void add_decode_row(const Candidate& candidate);
  bool gone(SequenceId id) const { return gone_.contains(id); }
  std::int64_t start_of(const Candidate& candidate) const;
  std::vector<std::int64_t> need_of(const Candidate& candidate, std::int64_t end) const;
  bool try_take(const Candidate& candidate, std::int64_t end, std::int64_t keep_free);
  Candidates victims_of(SequenceId id) const;
  bool make_room(SequenceId id, const Sequence& sequence);
  void give_up(SequenceId id);
  void preempt(SequenceId id, const Sequence& sequence);

  Duration by_layers() const { return limits_.layer * limits_.layers; }
  /// Streams are in the step, or wait for it.
  bool is_shared() const { return waiting_ > 0 || decode_shape_.rows > 0; }
  std::int64_t step_rows() const;
  Duration longest_shared_step(std::int64_t first_position) const;
  std::int64_t rows_allowed(std::int64_t first_position, std::int64_t at_most) const;
  std::int64_t fitting_chunk(const Candidate& candidate, std::int64_t count,
                             std::int64_t keep_free);
  void look_up_prefix(const Candidate& candidate);
  void start_prefills(Candidates candidates, std::int64_t budget);
  void top_up_prefills(std::int64_t budget);

  const SequenceTable& table_;
  const kvcache::BlockPools& pools_;
  const RateModel& rates_;
  const PlanLimits& limits_;
  std::vector<std::int64_t> free_;           // blocks per group that the plan has not used yet
  std::map<SequenceId, std::int64_t> hits_;  // cached prefixes of those that may start
  std::set<SequenceId> gone_;                // preempted or given up by this plan
  std::set<SequenceId> decoding_;            // have their row in this step
  StepShape decode_shape_;                   // of the rows that decode in this step
  std::int64_t waiting_ = 0;                 // rows that decode, but not in this step
  PlanDecision decision_;
};

Candidates Planner::in_phase(Phase phase) const {
  Candidates out;
  for (const auto& [id, sequence] : table_.all()) {
    if (sequence.phase() == phase) out.emplace_back(id, &sequence);
  }
  return out;
}

/// The position of its next row.
std::int64_t Planner::start_of(const Candidate& candidate) const {
  const auto hit = hits_.find(candidate.first);
  return hit == hits_.end() ? candidate.second->cached() : hit->second;
}

std::vector<std::int64_t> Planner::need_of(const Candidate& candidate, std::int64_t end) const {
  const Sequence& sequence = *candidate.second;
  kvcache::Coverage span = sequence.coverage(end);
  const auto hit = hits_.find(candidate.first);
  if (hit == hits_.end()) return pools_.need(sequence.blocks(), span);
  span.next = hit->second;
  return pools_.need_after_prefix(sequence.prefix_keys(), hit->second, span);
}

bool Planner::try_take(const Candidate& candidate, std::int64_t end, std::int64_t keep_free) {
  const auto need = need_of(candidate, end);
  for (std::size_t g = 0; g < free_.size(); ++g) {
    if (need[g] > 0 && need[g] + keep_free > free_[g]) return false;
  }
  for (std::size_t g = 0; g < free_.size(); ++g) free_[g] -= need[g];
  return true;
}

void Planner::give_up(SequenceId id) {
  decision_.cannot_grow.push_back(id);
  gone_.insert(id);
}

void Planner::preempt(SequenceId id, const Sequence& sequence) {
  decision_.preempt.push_back(id);
  gone_.insert(id);
  const auto freed = pools_.freed_by_release(sequence.blocks());
  for (std::size_t g = 0; g < free_.size(); ++g) free_[g] += freed[g];
}

/// Younger sequences that hold blocks and have no row in this step yet, the youngest first.
Candidates Planner::victims_of(SequenceId id) const {
  Candidates out;
  for (auto at = table_.all().rbegin(); at != table_.all().rend() && at->first > id; ++at) {
    const auto& [other, victim] = *at;
    const bool holds = victim.phase() != Phase::finished && !victim.blocks().empty();
    if (holds && !gone(other) && !decoding_.contains(other)) out.emplace_back(other, &victim);
  }
  return out;
}

/// Preempts as many younger sequences as it takes; nobody when that would not be enough.
bool Planner::make_room(SequenceId id, const Sequence& sequence) {
  const std::int64_t end = sequence.cached() + 1;
  if (try_take({id, &sequence}, end, 0)) return true;
  const auto need = pools_.need(sequence.blocks(), sequence.coverage(end));
  std::vector<std::int64_t> free = free_;
  std::size_t count = 0;
  const Candidates victims = victims_of(id);
  const auto enough = [&] {
    for (std::size_t g = 0; g < free.size(); ++g) {
      if (need[g] > free[g]) return false;
    }
    return true;
  };
  for (; count < victims.size() && !enough(); ++count) {
    const auto freed = pools_.freed_by_release(victims[count].second->blocks());
    for (std::size_t g = 0; g < free.size(); ++g) free[g] += freed[g];
  }
  if (!enough()) return false;
  for (std::size_t i = 0; i < count; ++i) preempt(victims[i].first, *victims[i].second);
  return try_take({id, &sequence}, end, 0);
}

/// Those that decode, the longest waiting first.
Candidates Planner::by_waiting() const {
  Candidates all = in_phase(Phase::decode);
  std::stable_sort(all.begin(), all.end(), [](const Candidate& a, const Candidate& b) {
    return a.second->last_step() < b.second->last_step();
  });
  return all;
}

/// Behind the last one from `at` on that this step has a row for: all, or as many as a step may
/// have. The limit of shared steps does not cut them: in turns each would wait for several steps
/// that read all weights instead of one.
Candidates::const_iterator Planner::end_of_step(Candidates::const_iterator at,
                                                Candidates::const_iterator end) const {
  StepShape shape = decision_.step.shape;
  for (; at != end; ++at) {
    if (gone(at->first)) continue;
    shape.add(at->second->cached(), 1);
    const bool too_long = rates_.predict(shape) > by_layers();
    if (shape.rows > 1 && (too_long || shape.rows > limits_.token_budget)) break;
  }
  return at;
}

void Planner::add_decode_row(const Candidate& candidate) {
  const auto& [id, sequence] = candidate;
  if (gone(id)) return;
  if (!pools_.could_fit(sequence->cached() + 1, 1)) {
    give_up(id);
  } else if (make_room(id, *sequence)) {
    decision_.step.decode.push_back({id, sequence->cached()});
    decision_.step.shape.add(sequence->cached(), 1);
    decoding_.insert(id);
  }
}

/// In order of admission, so that the older ones preempt. The row of one that gets no block goes to
/// those that have waited less: at every plan it would be the one that has waited longest.
void Planner::add_decode_rows() {
  const Candidates waiting = by_waiting();
  for (auto at = waiting.begin(); at != waiting.end();) {
    const auto end = end_of_step(at, waiting.end());
    if (end == at) break;
    Candidates turn(at, end);
    std::sort(turn.begin(), turn.end());
    for (const Candidate& candidate : turn) add_decode_row(candidate);
    at = end;
  }
  decode_shape_ = decision_.step.shape;
}

/// Most rows of this step, prefill rows and decode rows together.
std::int64_t Planner::step_rows() const {
  if (!decision_.step.decode.empty()) return limits_.token_budget;
  const std::int64_t flat = rates_.flat_rows();
  return flat == 0 ? limits_.token_budget : std::min(limits_.token_budget, flat);
}

/// Of a step with rows of a prompt that streams are in or wait for: the limit, or a quarter more
/// than what the streams' rows (or the prompt's first row) take alone, so that a prompt does not
/// take a step for each of its rows.
Duration Planner::longest_shared_step(std::int64_t first_position) const {
  StepShape least = decode_shape_;
  if (least.rows == 0) least.add(first_position, 1);
  const Duration shortest = rates_.predict(least);
  return std::max(limits_.shared_step, shortest + shortest / 4);
}

std::int64_t Planner::rows_allowed(std::int64_t first_position, std::int64_t at_most) const {
  const Duration limit =
      is_shared() ? std::min(longest_shared_step(first_position), by_layers()) : by_layers();
  const StepShape& shape = decision_.step.shape;
  std::int64_t rows = rates_.rows_within(shape, first_position, at_most, limit);
  const std::int64_t measured = rates_.measured_rows();
  const std::int64_t tried = std::min(at_most, 2 * measured - shape.rows);
  if (tried > rows && measured < few_times * decode_shape_.rows) {
    StepShape trial = shape;
    trial.add(first_position, tried);
    if (rates_.predict({measured, trial.keys}) <= limit) rows = tried;
  }
  // A step with nothing else in it makes progress whatever it is predicted to take.
  return decision_.step.empty() ? std::max<std::int64_t>(rows, std::min<std::int64_t>(at_most, 1))
                                : rows;
}

/// Takes blocks for the greatest chunk of at most `count` rows that they allow; 0: none.
std::int64_t Planner::fitting_chunk(const Candidate& candidate, std::int64_t count,
                                    std::int64_t keep_free) {
  const std::int64_t first = start_of(candidate);
  if (!is_shared() && first + count < candidate.second->length()) {
    const std::int64_t aligned = (first + count) / chunk_alignment * chunk_alignment;
    if (aligned > first) count = aligned - first;
  }
  // Full groups are reserved whole and do not depend on the chunk; window groups do.
  for (; count > 0; count /= 2) {
    if (try_take(candidate, first + count, keep_free)) return count;
  }
  return 0;
}

void Planner::look_up_prefix(const Candidate& candidate) {
  const std::int64_t hit = candidate.second->cached_prefix(pools_);
  if (hit > 0) hits_[candidate.first] = hit;
}

void Planner::start_prefills(Candidates candidates, std::int64_t budget) {
  std::sort(candidates.begin(), candidates.end(), starts_before);
  std::int64_t share = budget;
  if (candidates.size() > 1) {
    const std::int64_t fitting = rows_allowed(start_of(candidates.front()), budget);
    share = std::max<std::int64_t>(fitting / 2, 1);
  }
  const auto decoding = waiting_ + static_cast<std::int64_t>(decision_.step.decode.size());
  // Blocks that a victim leaves count as free, and are no longer when a prefix hit takes them.
  bool may_start = decision_.preempt.empty();
  for (const Candidate& candidate : candidates) {
    const auto& [id, sequence] = candidate;
    const bool started = !sequence->blocks().empty();
    if (gone(id) || (!started && !may_start)) continue;
    if (!started) look_up_prefix(candidate);
    const std::int64_t first = start_of(candidate);
    const std::int64_t left = sequence->length() - first;
    const std::int64_t room = budget - decision_.step.shape.rows;
    const std::int64_t wanted = std::min({left, room, share, limits_.chunk_rows});
    const std::int64_t allowed = rows_allowed(first, std::max<std::int64_t>(wanted, 0));
    if (allowed == 0) break;
    const std::int64_t count = fitting_chunk(candidate, allowed, started ? 0 : decoding);
    if (count == 0) {
      // Nobody overtakes a prompt that waits for memory, or a long one might wait for ever.
      may_start = may_start && started;
      continue;
    }
    if (hits_.contains(id)) decision_.step.hits.push_back({id, first});
    decision_.step.prefill.push_back({id, first, count});
    decision_.step.shape.add(first, count);
  }
}

/// Gives the rows that are left over to the planned chunks, in their order.
void Planner::top_up_prefills(std::int64_t budget) {
  for (PrefillRows& rows : decision_.step.prefill) {
    const Sequence& sequence = *table_.find(rows.sequence);
    const std::int64_t end = rows.first_position + rows.count;
    const std::int64_t wanted =
        std::min({sequence.length() - end, budget - decision_.step.shape.rows,
                  limits_.chunk_rows - rows.count});
    if (wanted <= 0) continue;
    std::int64_t more = rows_allowed(end, wanted);
    if (!is_shared() && end + more < sequence.length()) {
      more = std::max<std::int64_t>((end + more) / chunk_alignment * chunk_alignment - end, 0);
    }
    // Blocks up to `end` were counted already: only what lies beyond them is taken here.
    const Candidate candidate{rows.sequence, &sequence};
    const auto have = need_of(candidate, end);
    const auto want = need_of(candidate, end + more);
    bool fits = more > 0;
    for (std::size_t g = 0; g < free_.size(); ++g) fits = fits && want[g] - have[g] <= free_[g];
    if (!fits) continue;
    for (std::size_t g = 0; g < free_.size(); ++g) free_[g] -= want[g] - have[g];
    rows.count += more;
    decision_.step.shape.add(end, more);
  }
}

/// Several can hold the window blocks that each of them waits for; then the one that would start
/// last gives way: another would take its blocks back first. One alone waits: what it lacks is
/// pinned by transfers that will end.
void Planner::break_deadlock(std::initializer_list<Phase> phases) {
  const bool moves = !decision_.step.empty() || !decision_.preempt.empty();
  if (moves || !decision_.cannot_grow.empty()) return;
  Candidates holders;
  for (const Phase phase : phases) {
    for (const Candidate& candidate : in_phase(phase)) {
      if (!candidate.second->blocks().empty()) holders.push_back(candidate);
    }
  }
  if (holders.size() < 2) return;
  const auto last = std::max_element(holders.begin(), holders.end(), starts_before);
  preempt(last->first, *last->second);
}

void Planner::add_prefill_rows() {
  Candidates candidates;
  for (const Candidate& candidate : in_phase(Phase::prefill)) {
    if (gone(candidate.first)) continue;
    if (pools_.could_fit(candidate.second->length(), 1)) {
      candidates.push_back(candidate);
    } else {
      give_up(candidate.first);
    }
  }
  const std::int64_t budget = step_rows();
  start_prefills(std::move(candidates), budget);
  top_up_prefills(budget);
}

PlanDecision Planner::finish() {
  decision_.step.predicted = rates_.predict(decision_.step.shape);
  return std::move(decision_);
}

bool any_prefill(const SequenceTable& table) {
  return std::any_of(table.all().begin(), table.all().end(),
                     [](const auto& entry) { return entry.second.phase() == Phase::prefill; });
}

}  // namespace

PlanDecision plan_prefill(const SequenceTable& table, const kvcache::BlockPools& pools,
                          const RateModel& rates, const PlanLimits& limits) {
  Planner planner(table, pools, rates, limits);
  planner.add_prefill_rows();
  planner.break_deadlock({Phase::prefill});  // those that are computed wait to be handed over
  return planner.finish();
}

PlanDecision plan_mixed(const SequenceTable& table, const kvcache::BlockPools& pools,
                        const RateModel& rates, const PlanLimits& limits) {
  const bool prefills = any_prefill(table);
  Planner planner(table, pools, rates, limits);
  planner.add_decode_rows();
  planner.add_prefill_rows();
  planner.break_deadlock({Phase::prefill, Phase::decode});
  PlanDecision together = planner.finish();
  const bool is_shut_out = prefills && together.step.prefill.empty() && table.decoded_last();
  if (!is_shut_out) return together;
  Planner alone(table, pools, rates, limits);
  alone.let_wait(together.step.decode.size());
  alone.add_prefill_rows();
  PlanDecision prefill = alone.finish();
  return prefill.step.empty() ? together : prefill;
}

}  // namespace baton::engine
