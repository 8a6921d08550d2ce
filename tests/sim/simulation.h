// The world's insides. One class, since everything happens in one order; its functions are in files
// by idea: simulation.cc (time, invariants), processes.cc (workers, routers, connections, faults),
// network.cc (control messages), handoffs.cc (data plane), forward.cc (steps), clients.cc.
#pragma once

#include <functional>
#include <optional>
#include <queue>
#include <random>

#include <fmt/format.h>

#include "parts.h"

namespace baton::sim {

class Simulation {
 public:
  explicit Simulation(const Options& options);
  Outcome run();

 private:
  // ---- time and chance (simulation.cc) ----
  struct Event {
    Instant at;
    std::uint64_t order;
    std::function<void()> run;
    bool operator<(const Event& other) const {
      return std::tie(at, order) > std::tie(other.at, other.order);
    }
  };
  void after(Duration delay, std::function<void()> run);
  Duration between(Duration low, Duration high);
  bool chance(double probability);
  void note(std::uint64_t value);
  template <typename... Args>
  void log(fmt::format_string<Args...> format, Args&&... args) {
    if (!options_.log) return;
    fmt::print("{:10.4f} {}\n", seconds(now_.time_since_epoch()),
               fmt::format(format, std::forward<Args>(args)...));
  }
  void violation(std::string what);
  void tick();
  bool quiet() const;
  void check_baseline();
  void check_calm();

  // ---- processes and connections (processes.cc) ----
  void add_worker(Role role, const std::string& name);
  void start(Worker& w);
  handoff::OwnerRef owner(const Router& r) const { return {r.node, r.epoch}; }
  router::WorkerRef ref(const Worker& w) const { return {NodeId(w.name), w.epoch}; }
  void connect_router(Router& r, Worker& w);
  void connected(Router& r, Worker& w);
  void tell_up(Router& r, Worker& w);
  void cut_router(Router& r, Worker& w, bool reconnect);
  void connect_pair(Worker& p, Worker& d);
  void connect_pairs(Worker& w);
  void cut_pair(Worker& p, Worker& d, bool reconnect);
  void cut_pairs(Worker& w, bool reconnect);
  void lose_transfers(Worker& p, Worker& d);
  void kill(Worker& w);
  void kill(Router& r);
  void stop(Worker& w);
  void notice_silence(Worker& w);
  Worker& any_worker();
  void cut_something();
  void fault_tick();

  // ---- control messages (network.cc) ----
  Duration latency(const Worker& w);
  Instant in_order(const std::string& channel, Duration delay);
  /// Runs on a live worker, later when it is stopped then; never in a later life of it.
  void on_worker(Worker& w, Duration delay, std::function<void()> run);
  void to_worker(Router& r, Worker& w, protocol::Message message);
  void at_worker(Router& r, Worker& w, protocol::Message message);
  void check_gone(Worker& w, const protocol::Message& message);
  void to_router(Router& r, Worker& w, protocol::Message message);
  void at_router(Router& r, const router::WorkerRef& from, const protocol::Message& message);
  void to_pair(Worker& from, LinkId link, protocol::Message message);
  void pair_message(Worker& to, LinkId link, const protocol::Message& message);
  void settle(Worker& w);
  void flush_core(Worker& w);
  void execute(Worker& w, worker::ToOwner& e);
  void execute(Worker& w, worker::ToPair& e) { to_pair(w, e.link, std::move(e.message)); }
  void execute(Worker& w, worker::Counted& e);
  void execute(Worker& w, worker::ToDriver& e);
  void execute(Worker&, worker::PrefixLookedUp& e);
  void execute(Worker& w, worker::PromptReady& e);

  // ---- handoffs (handoffs.cc) ----
  void run_commands(Worker& w);
  void drive(Worker& w, handoff::BeginSource& c);
  void drive(Worker& w, handoff::ExtendSource& c);
  void drive(Worker& w, handoff::LayerReady& c);
  void drive(Worker& w, handoff::CommitSource& c);
  void drive(Worker& w, handoff::SetTarget& c);
  void drive(Worker& w, handoff::AbortSource& c);
  void drive(Worker& w, handoff::OpenGrant& c);
  void drive(Worker& w, handoff::CloseGrant& c);
  static void hold_nothing(protocol::Grant& grant);
  void digest_later(Worker& w);
  void digest_held(Worker& w);
  void to_core(Worker& w, worker::DriverEvent event);
  void note_freed(Worker& w);
  std::vector<std::uint64_t> tickets_of(Worker& w, const std::vector<handoff::Piece>& pieces);
  std::vector<Digest128> digest(Worker& w, const std::vector<handoff::Piece>& pieces);
  void execute(Worker& w, handoff::SendUnits& e);
  void execute(Worker& w, handoff::CancelSend& e);
  void execute(Worker& w, handoff::SendCommit& e) {
    w.sender->commit_sent(e.source, now_);
    to_pair(w, e.link, e.commit);
  }
  void execute(Worker& w, handoff::SourceAccepted& e) { to_core(w, e); }
  void execute(Worker& w, handoff::SourceFailed& e) { to_core(w, e); }
  void execute(Worker& w, handoff::SourceIdle& e) { to_core(w, e); }
  void execute(Worker& w, handoff::AcceptUnits& e);
  void execute(Worker& w, handoff::RefuseUnits& e);
  void execute(Worker& w, handoff::CancelReceive& e);
  void execute(Worker& w, handoff::RefuseCommit& e) { to_pair(w, e.link, e.message); }
  void execute(Worker& w, handoff::CommitVerified& e) { to_core(w, e); }
  void execute(Worker& w, handoff::GrantClosed& e) { to_core(w, e); }
  void execute(Worker& w, handoff::HeldUnitsDiffer& e);
  void offered(Worker& to, TransferId offer, LinkId link);
  void copy(Worker& w, TransferId offer, const std::vector<handoff::Piece>& pieces);
  void move_bytes(Worker& to, const Transfer& transfer, const std::vector<handoff::Piece>& pieces);
  void write_unchecked(Worker& to, const Transfer& transfer);
  void end_send(const Transfer& transfer, handoff::SendOutcome outcome);

  // ---- the forward pass (forward.cc) ----
  void begin_step(Worker& w);
  void drop_cancelled(Worker& w, const engine::StepPlan& plan, std::set<engine::SequenceId>& left);
  void compute_layer(Worker& w, const engine::StepPlan& plan, std::uint32_t layer,
                     std::set<engine::SequenceId>& left);
  void end_step(Worker& w, const engine::StepPlan& plan, std::set<engine::SequenceId>& left);
  void index_unfinished(Worker& w, const engine::StepPlan& plan);
  void check_unshared(Worker& w, const engine::Sequence& sequence, std::int64_t position,
                      std::uint32_t layer);
  Unit* unit_at(Worker& w, const engine::Sequence& sequence, std::int64_t position,
                std::uint32_t layer, int component);
  void write_cache(Worker& w, engine::SequenceId id, std::int64_t first, std::int64_t count,
                   std::uint32_t layer);
  void check_cache(Worker& w, engine::SequenceId id, std::int64_t position, std::uint32_t layer);

  // ---- routers' effects and clients (clients.cc) ----
  void settle(Router& r);
  void execute(Router& r, router::SendTo& e);
  void execute(Router& r, router::DeliverTokens& e);
  void execute(Router& r, router::RequestEnded& e);
  void execute(Router& r, router::AttemptMade& e);
  void execute(Router&, router::HandoffFailed&) {}
  void execute(Router&, router::HandoffDone&) {}
  void submit(int number);
  std::vector<TokenId> turn_before(std::size_t longest);
  void drop(RequestId id);
  void count_message(const protocol::Message& message);

  Options options_;
  std::mt19937_64 random_;
  Instant now_{};
  std::uint64_t next_order_ = 0;
  std::uint64_t next_link_ = 1;
  std::uint64_t next_offer_ = 1;
  std::uint64_t tick_count_ = 0;
  std::priority_queue<Event> agenda_;
  std::map<std::string, Router> routers_;
  std::map<std::string, Worker> workers_;
  std::map<TransferId, Transfer> transfers_;
  std::map<std::string, Instant> channels_;
  std::map<RequestId, Client> clients_;
  bool repeating_ = false;  ///< a router tells a worker again what it may have missed
  Outcome outcome_;
};

}  // namespace baton::sim
