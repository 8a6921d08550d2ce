#include "simulation.h"

#include <algorithm>

namespace baton::sim {

Simulation::Simulation(const Options& options) : options_(options), random_(options.seed) {
  for (int i = 0; i < options_.routers; ++i) {
    const std::string name = i == 0 ? "r" : "r" + std::to_string(i);
    Router& r = routers_[name];
    r.node = NodeId(name);
    r.table = std::make_unique<router::HandoffTable>(table_limits(),
                                                     options_.seed + static_cast<unsigned>(i));
  }
  for (int i = 0; i < options_.prefill_nodes; ++i)
    add_worker(Role::prefill, "p" + std::to_string(i));
  for (int i = 0; i < options_.decode_nodes; ++i) add_worker(Role::decode, "d" + std::to_string(i));
}

void Simulation::after(Duration delay, std::function<void()> run) {
  agenda_.push({now_ + delay, next_order_++, std::move(run)});
}

Duration Simulation::between(Duration low, Duration high) {
  return low + Duration(static_cast<Duration::rep>(
                   random_() % static_cast<std::uint64_t>((high - low).count() + 1)));
}

bool Simulation::chance(double probability) {
  return static_cast<double>(random_() >> 11) * 0x1.0p-53 < probability;
}

void Simulation::note(std::uint64_t value) { outcome_.trace = mix(outcome_.trace, value); }

void Simulation::violation(std::string what) {
  log("VIOLATION {}", what);
  if (outcome_.violations.size() < 20) outcome_.violations.push_back(std::move(what));
}

void Simulation::tick() {
  for (auto& [name, r] : routers_) {
    if (!r.alive) continue;
    r.table->tick(now_);
    settle(r);
  }
  const bool heartbeat = tick_count_++ % 25 == 0;
  for (auto& [name, w] : workers_) {
    if (!w.alive) continue;
    notice_silence(w);
    if (now_ < w.stopped_until) continue;
    for (auto& [node, r] : routers_) {
      if (heartbeat && w.routers[node].connected) to_worker(r, w, protocol::Heartbeat{2000});
    }
    w.core->tick(now_);
    w.sender->tick(now_);
    w.receiver->tick(now_);
    for (auto& [node, r] : routers_) {
      if (!heartbeat) continue;
      if (w.routers[node].connected)
        to_router(r, w, protocol::Inventory{w.core->inventory(owner(r))});
    }
    settle(w);
  }
  after(20ms, [this] { tick(); });
}

bool Simulation::quiet() const {
  const bool ended = std::all_of(clients_.begin(), clients_.end(), [](const auto& each) {
    return each.second.ended || each.second.dropped;
  });
  const bool idle = std::all_of(workers_.begin(), workers_.end(), [this](const auto& each) {
    return each.second.alive && each.second.core->idle() && now_ >= each.second.stopped_until;
  });
  const bool even = std::all_of(routers_.begin(), routers_.end(), [](const auto& each) {
    return each.second.alive && each.second.table->debts() == 0;
  });
  return ended && idle && even && static_cast<int>(clients_.size()) == options_.requests;
}

void Simulation::check_baseline() {
  for (auto& [name, w] : workers_) {
    for (int group = 0; group < w.core->pools().groups(); ++group) {
      const kvcache::PoolCounts counts = w.core->pools().counts(group);
      const std::int32_t held = counts.total - counts.free - counts.cached;
      if (held != 0 || counts.quarantined != 0) {
        violation(name + ": group " + std::to_string(group) + " has " + std::to_string(held) +
                  " blocks stranded");
      }
    }
    if (w.sender->sources() != 0) violation(name + ": a source is left");
    if (w.receiver->grants() != 0) violation(name + ": a grant is left");
  }
}

/// Where no process was lost or held up, no safety net may have been needed (P4).
void Simulation::check_calm() {
  if (outcome_.kills + outcome_.router_kills + outcome_.stops > 0) return;
  if (outcome_.leases_expired > 0) violation("a lease expired");
  if (outcome_.orphans_freed > 0) violation("a worker held what its router had forgotten");
  for (Reason reason : {Reason::lease_expired, Reason::deadline_exceeded}) {
    if (!outcome_.attempt_reasons.contains(reason)) continue;
    violation("a new attempt: " + std::string(info(reason).label));
  }
}

Outcome Simulation::run() {
  for (int i = 0; i < options_.requests; ++i) {
    after(between(0ms, 2000ms), [this, i] { submit(i); });
  }
  after(0ms, [this] { tick(); });
  after(100ms, [this] { fault_tick(); });
  constexpr Duration limit = 600s;
  std::optional<Instant> quiet_since;
  while (!agenda_.empty() && outcome_.violations.empty()) {
    const Event event = agenda_.top();
    agenda_.pop();
    now_ = event.at;
    event.run();
    if (now_.time_since_epoch() > limit) {
      violation("not everything ended");
      break;
    }
    if (!quiet()) {
      quiet_since.reset();
    } else if (!quiet_since) {
      quiet_since = now_;
    } else if (now_ - *quiet_since > 1s) {
      outcome_.ended_at_s = seconds(quiet_since->time_since_epoch());
      break;
    }
  }
  if (outcome_.violations.empty()) check_baseline();
  if (outcome_.violations.empty()) check_calm();
  return outcome_;
}

World::World(Options options) : simulation_(std::make_unique<Simulation>(options)) {}
World::~World() = default;
Outcome World::run() { return simulation_->run(); }

}  // namespace baton::sim
