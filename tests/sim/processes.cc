// Workers and routers as processes: their lives, their connections, and what befalls them.
#include <algorithm>

#include "simulation.h"

namespace baton::sim {

void Simulation::add_worker(Role role, const std::string& name) {
  Worker& worker = workers_[name];
  worker.role = role;
  worker.name = name;
  start(worker);
}

void Simulation::start(Worker& w) {
  w.alive = true;
  w.stepping = false;
  w.epoch = Epoch(random_() | 1);
  w.memory.clear();
  w.links.clear();
  w.newest.clear();
  w.gone.clear();
  w.commands.clear();
  if (w.role == Role::prefill) {
    w.core = std::make_unique<prefill_node::PrefillCore>(
        node_limits(options_),
        pool_config(options_, options_.prefill_blocks, options_.prefill_window_blocks));
  } else {
    w.core = std::make_unique<decode_node::DecodeCore>(
        node_limits(options_),
        pool_config(options_, options_.decode_blocks, options_.decode_window_blocks), random_());
  }
  w.sender =
      std::make_unique<handoff::Sender>(geometry(options_), Digest256{}, handoff::SenderLimits{});
  w.receiver = std::make_unique<handoff::Receiver>(geometry(options_), Digest256{}, w.epoch,
                                                   handoff::ReceiverLimits{});
  for (auto& [name, r] : routers_) connect_router(r, w);
}

// ---- router connections ----

void Simulation::connect_router(Router& r, Worker& w) {
  const Epoch epoch = w.epoch;
  const Epoch router_epoch = r.epoch;
  after(between(1ms, 50ms), [this, &r, &w, epoch, router_epoch] {
    const bool same_lives = w.epoch == epoch && r.epoch == router_epoch;
    if (w.alive && r.alive && same_lives && !w.routers[r.node.value()].connected) connected(r, w);
  });
}

void Simulation::connected(Router& r, Worker& w) {
  log("router {} and {} connected", r.node.value(), w.name);
  RouterLink& link = w.routers[r.node.value()];
  const bool again = link.known == r.epoch;
  link.connected = true;
  link.silent = false;
  link.known = r.epoch;
  ++link.number;
  if (!again || options_.plant != Plant::skip_worker_repeats) {
    w.core->owner_connected(owner(r), now_);
  }
  tell_up(r, w);
  connect_pairs(w);
}

void Simulation::tell_up(Router& r, Worker& w) {
  router::Worker entry;
  entry.node = NodeId(w.name);
  entry.role = w.role;
  entry.epoch = w.epoch;
  if (w.role == Role::decode) entry.info.prefill_suffix_tokens = options_.prefill_suffix_tokens;
  entry.load.capacity_tokens = entry.load.free_tokens = 1000;
  r.table->worker_up(entry, now_);
  settle(w);
  repeating_ = true;
  settle(r);
  repeating_ = false;
}

void Simulation::cut_router(Router& r, Worker& w, bool reconnect) {
  RouterLink& link = w.routers[r.node.value()];
  if (!link.connected) return;
  log("cut router {} and {}", r.node.value(), w.name);
  link.connected = false;
  ++link.number;
  if (r.alive) {
    r.table->worker_down(ref(w), now_);
    settle(r);
  }
  if (reconnect) connect_router(r, w);
}

/// A router takes a worker for dead that has not answered three heartbeats, and hears of it again.
void Simulation::notice_silence(Worker& w) {
  constexpr Duration patience = 1500ms;
  const bool stopped = now_ < w.stopped_until;
  for (auto& [node, r] : routers_) {
    RouterLink& link = w.routers[node];
    if (!link.connected || !r.alive) continue;
    if (stopped && !link.silent && now_ - w.stopped_at > patience) {
      log("{} is silent", w.name);
      link.silent = true;
      r.table->worker_down(ref(w), now_);
      settle(r);
    } else if (!stopped && link.silent) {
      link.silent = false;
      tell_up(r, w);
    }
  }
}

// ---- pair connections ----

void Simulation::connect_pairs(Worker& w) {
  for (auto& [name, other] : workers_) {
    if (other.role == w.role) continue;
    if (w.role == Role::decode) {
      connect_pair(other, w);
    } else {
      connect_pair(w, other);
    }
  }
}

void Simulation::connect_pair(Worker& p, Worker& d) {
  if (!p.alive || !d.alive || p.links.contains(d.name)) return;
  const LinkId link(next_link_++);
  const RequestId secret{random_(), random_()};
  p.links[d.name] = link;
  d.links[p.name] = link;
  d.receiver->link_up(link, secret);
  p.sender->link_up(link, NodeId(d.name), d.epoch, secret, now_);
  settle(p);
}

/// Transfers of a link end on both sides before it is down.
void Simulation::lose_transfers(Worker& p, Worker& d) {
  for (auto it = transfers_.begin(); it != transfers_.end();) {
    if (it->second.receiver != d.name || it->second.sender != p.name) {
      ++it;
      continue;
    }
    const Transfer lost = it->second;
    const TransferId id = it->first;
    it = transfers_.erase(it);
    if (d.alive && lost.epoch == d.epoch) d.receiver->received(id, {});
    if (p.alive) p.sender->send_done(lost.send, handoff::SendOutcome::lost, now_);
  }
}

void Simulation::cut_pair(Worker& p, Worker& d, bool reconnect) {
  const auto found = p.links.find(d.name);
  if (found == p.links.end()) return;
  log("cut {} and {}", p.name, d.name);
  const LinkId link = found->second;
  p.links.erase(found);
  d.links.erase(p.name);
  lose_transfers(p, d);
  if (p.alive) p.sender->link_down(link, now_);
  if (d.alive) d.receiver->link_down(link);
  if (reconnect) after(between(10ms, 400ms), [this, &p, &d] { connect_pair(p, d); });
  if (p.alive) settle(p);
  if (d.alive) settle(d);
}

void Simulation::cut_pairs(Worker& w, bool reconnect) {
  for (auto& [name, other] : workers_) {
    if (other.role == w.role) continue;
    Worker& p = w.role == Role::prefill ? w : other;
    Worker& d = w.role == Role::prefill ? other : w;
    cut_pair(p, d, reconnect);
  }
}

// ---- faults ----

void Simulation::kill(Worker& w) {
  if (!w.alive) return;
  ++outcome_.kills;
  log("kill {}", w.name);
  w.alive = false;
  cut_pairs(w, false);
  for (auto& [name, r] : routers_) cut_router(r, w, false);
  const auto longest = std::chrono::duration_cast<Duration>(
      std::chrono::duration<double>(options_.longest_absence_seconds));
  after(between(50ms, longest), [this, &w] { start(w); });
}

/// Its clients lose their connections; its next life knows nothing of them.
void Simulation::kill(Router& r) {
  if (!r.alive) return;
  ++outcome_.router_kills;
  log("kill router {}", r.node.value());
  r.alive = false;
  for (auto& [id, client] : clients_) {
    if (client.router == r.node.value() && !client.ended) client.dropped = true;
  }
  for (auto& [name, w] : workers_) cut_router(r, w, false);
  const std::uint64_t seed = random_();
  after(between(50ms, 3000ms), [this, &r, seed] {
    r.alive = true;
    r.epoch = Epoch(seed | 1);
    r.table = std::make_unique<router::HandoffTable>(table_limits(), seed);
    for (auto& [name, w] : workers_) connect_router(r, w);
  });
}

void Simulation::stop(Worker& w) {
  ++outcome_.stops;
  const auto longest = std::chrono::duration_cast<Duration>(
      std::chrono::duration<double>(options_.longest_stop_seconds));
  if (now_ >= w.stopped_until) w.stopped_at = now_;
  w.stopped_until = std::max(w.stopped_until, now_ + between(10ms, longest));
  log("stop {} for {:.3f} s", w.name, seconds(w.stopped_until - now_));
}

Worker& Simulation::any_worker() {
  auto it = workers_.begin();
  std::advance(it, static_cast<std::ptrdiff_t>(random_() % workers_.size()));
  return it->second;
}

void Simulation::cut_something() {
  ++outcome_.cuts;
  Worker& w = any_worker();
  if (chance(0.5)) {
    auto it = routers_.begin();
    if (routers_.size() > 1) {
      std::advance(it, static_cast<std::ptrdiff_t>(random_() % routers_.size()));
    }
    cut_router(it->second, w, w.alive);
  } else {
    cut_pairs(w, true);
  }
}

void Simulation::fault_tick() {
  constexpr double interval_s = 0.01;
  if (chance(options_.kills_per_second * interval_s)) kill(any_worker());
  if (chance(options_.cuts_per_second * interval_s)) cut_something();
  if (chance(options_.stops_per_second * interval_s)) stop(any_worker());
  if (options_.router_kills_per_second > 0 &&
      chance(options_.router_kills_per_second * interval_s)) {
    auto it = routers_.begin();
    std::advance(it, static_cast<std::ptrdiff_t>(random_() % routers_.size()));
    kill(it->second);
  }
  if (seconds(now_.time_since_epoch()) < options_.fault_seconds) {
    after(10ms, [this] { fault_tick(); });
  }
}

}  // namespace baton::sim
