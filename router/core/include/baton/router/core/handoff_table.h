// The router's record of every request, from admission to the last answer of its workers. Pure:
// messages, worker changes and `now` come in, effects go out. Its states and the rules for late,
// lost and repeated messages are in ARCHITECTURE.md.
//
// Guarantees to its caller: tokens of a request are delivered in order, each index once; each
// submitted request ends exactly once; what a worker may still hold for an ended request is
// cancelled or released until the worker says Gone, lives a new life or has let the lease pass.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "baton/base/result.h"
#include "baton/base/time.h"
#include "baton/protocol/messages.h"
#include "baton/router/core/prefix_memory.h"
#include "baton/router/core/table_types.h"
#include "baton/router/core/workers.h"

namespace baton::router {

class HandoffTable {
 public:
  /// `prefix_secret`: the cluster's, keys the prefix chains; the same on every router.
  HandoffTable(TableLimits limits, std::uint64_t seed, std::string prefix_secret = {});

  /// Reason::overloaded when the table is full; then nothing was taken.
  Result<void> submit(Submission submission, Instant now);
  /// The caller has all it wants (stop string, client gone): no effect but the workers' release
  /// follows, in particular no RequestEnded. Unknown ids are fine.
  void drop(RequestId request, Instant now);

  void worker_up(Worker worker, Instant now);
  void worker_down(const WorkerRef& worker, Instant now);
  void message(const WorkerRef& from, protocol::Message message, Instant now);
  void tick(Instant now);
  /// The router goes: every request ends now, with this error unless its last token is known.
  void end_all(Reason reason, const std::string& message, Instant now);

  std::vector<TableEffect> take_effects();

  const Workers& workers() const { return workers_; }
  /// Placed or waiting requests.
  std::size_t live() const { return entries_.size(); }
  std::size_t queued() const { return queue_.size(); }
  std::size_t handoffs_in_flight() const;
  /// Workers that have not said Gone yet, for all ended requests.
  std::size_t debts() const { return debts_.size(); }
  /// Measured so far; nothing for an unknown request.
  const RequestFacts* facts(RequestId request) const;

 private:
  enum class State : std::uint8_t { queued, placed, prefilling, transferring, decoding };

  struct Entry {
    Submission submission;
    State state = State::queued;
    Attempt attempt;
    std::optional<Digest256> fingerprint;
    std::optional<WorkerRef> prefill;  ///< holds something of the current attempt
    bool computed_by_decode = false;   ///< the decode worker owns it and computes the prompt
    std::optional<WorkerRef> decode;
    std::optional<protocol::Grant> grant;
    bool token_of_attempt = false;  ///< prefill's token has come on this attempt
    bool target_sent = false;
    bool handoff_known = false;      ///< HandoffEnded has come, or never will
    std::vector<TokenId> generated;  ///< delivered
    std::size_t base = 0;            ///< of these, known when the prefill leg began
    std::map<std::int32_t, Delivered> early;
    std::optional<std::int32_t> resumed_at;  ///< the gap that was asked for last
    int attempts_without_token = 0;
    PromptKeys keys;  ///< of the ids, where prefixes matter
    std::set<NodeId> avoid;
    std::set<WorkerRef> queues;  ///< decode workers that refused for space and keep it a place
    Instant queued_since;
    protocol::PhaseTimes earlier;  ///< of attempts before this one
    Instant state_deadline;
    std::optional<Instant> reserve_at;   ///< a refused reservation is repeated then
    std::optional<Instant> short_since;  ///< first refusal for want of space
    std::optional<WorkerRef> waits_at;   ///< for space, once all decode workers have refused
    Instant waits_since;                 ///< there
    std::optional<Instant> ended_at;     ///< finished by the decode node, waits for facts only
    protocol::FinishReason finish = protocol::FinishReason::stop;
    std::optional<Instant> lost_since;  ///< lacks a worker, and nobody else can take over
    int prefill_missed = 0;  ///< inventories in a row that do not list what the worker was sent
    int decode_missed = 0;
    RequestFacts facts;
  };

  /// Something that a worker may still hold for an attempt that is over.
  struct Debt {
    protocol::Message message;  ///< Cancel or Release
    Attempt attempt;            ///< that it is about
    Instant until;
  };
  using DebtKey = std::pair<WorkerRef, RequestId>;

  Entry* find_current(const WorkerRef& from, const protocol::AttemptKey& key);
  protocol::AttemptKey key_of(RequestId id, const Entry& entry) const;
  protocol::Work work_of(const Entry& entry, Instant now) const;
  bool needs_decode(const Entry& entry) const;

  void try_place(RequestId id, Entry& entry, Instant now);
  void send_reserve(RequestId id, Entry& entry, Instant now);
  void send_prefill(RequestId id, Entry& entry, Instant now);
  bool place_prefill(RequestId id, Entry& entry, Instant now);
  void extend_keys(Entry& entry) const;
  void remember_prefix(Entry& entry, const WorkerRef& worker);
  void send_target_if_ready(RequestId id, Entry& entry, Instant now);
  bool finish_if_complete(RequestId id, Entry& entry, Instant now);
  void new_attempt(RequestId id, Entry& entry, Reason reason, const std::string& message,
                   Instant now);
  void new_decode_leg(RequestId id, Entry& entry, Reason reason, const std::string& message,
                      Instant now);
  bool may_try_again(RequestId id, Entry& entry, Reason reason, const std::string& message,
                     Instant now);
  void note_attempt(RequestId id, Entry& entry, Reason reason);
  void computed_by(const WorkerRef& decode, RequestId id, Entry& entry, Instant now);
  void release_prefill(RequestId id, Entry& entry, Instant now);
  bool others_can_take_over(const Entry& entry) const;
  std::optional<WorkerRef> lost_worker(const Entry& entry) const;
  bool lacks_worker(const Entry& entry) const;
  void watch_workers(Entry& entry, Instant now) const;
  void take_over_if_possible(RequestId id, Entry& entry, Instant now);
  void worker_lost(RequestId id, Entry& entry, const WorkerRef& worker, bool for_good, Instant now);
  PlacementNeed need_of(const Entry& entry) const;
  std::string outgrown_text(const Entry& entry, const WorkerRef& worker) const;
  WorkerRef next_decode(Entry& entry, const WorkerRef& from, Reason reason, Instant now);
  std::vector<RequestId> ids() const;
  void repeat_to(const WorkerRef& worker, RequestId id, Entry& entry, Instant now);
  void check_deadlines(RequestId id, Entry& entry, Instant now);

  void on(const WorkerRef& from, const protocol::Granted& message, Instant now);
  void on(const WorkerRef& from, const protocol::Refused& message, Instant now);
  void on(const WorkerRef& from, const protocol::Tokens& message, Instant now);
  void on(const WorkerRef& from, const protocol::Finished& message, Instant now);
  void on(const WorkerRef& from, const protocol::Owned& message, Instant now);
  void on(const WorkerRef& from, const protocol::HandoffEnded& message, Instant now);
  void on(const WorkerRef& from, const protocol::Gone& message, Instant now);
  void on(const WorkerRef& from, const protocol::Report& message, Instant now);
  void on(const WorkerRef& from, const protocol::Inventory& message, Instant now);
  void decode_forgot(RequestId id, Entry& entry, Instant now);
  void find_forgotten(const WorkerRef& from, const protocol::Inventory& message, Instant now);
  template <typename Other>
  void on(const WorkerRef&, const Other&, Instant) {}

  /// Together with what was built on it.
  static void forget_grant(Entry& entry) {
    entry.grant.reset();
    entry.target_sent = false;
    entry.handoff_known = false;
    entry.computed_by_decode = false;
  }
  /// Nobody has computed for it since it was counted last.
  static void count_queued(Entry& entry, Instant now) {
    entry.facts.times.queue += now - entry.queued_since;
    entry.queued_since = now;
  }
  static void take_decode_times(Entry& entry, const protocol::PhaseTimes& times);
  void take_tokens(RequestId id, Entry& entry, const protocol::Tokens& message, Instant now);
  void deliver_early(RequestId id, Entry& entry);
  void answer_stale(const WorkerRef& from, const protocol::AttemptKey& key, Instant now);

  void send(const WorkerRef& worker, protocol::Message message);
  void owe(const WorkerRef& worker, const protocol::Cancel& cancel, Instant now);
  void owe(const WorkerRef& worker, const protocol::Release& release, Instant now);
  void owe(const WorkerRef& worker, protocol::Message message, const protocol::AttemptKey& key,
           Instant now);
  void let_go(RequestId id, Entry& entry, Instant now);
  void leave_queues(RequestId id, Entry& entry, Instant now);
  /// The entry is gone after this.
  void finish(RequestId id, protocol::FinishReason finish, std::optional<Error> error, Instant now);
  void fail(RequestId id, Reason reason, std::string message, Instant now) {
    finish(id, protocol::FinishReason::error, Error(reason, std::move(message)), now);
  }

  TableLimits limits_;
  std::mt19937_64 random_;
  std::string prefix_secret_;
  Workers workers_;
  PrefixMemory prefixes_;
  std::map<RequestId, Entry> entries_;
  std::set<RequestId> queue_;
  std::map<DebtKey, Debt> debts_;
  std::vector<TableEffect> effects_;
};

}  // namespace baton::router
