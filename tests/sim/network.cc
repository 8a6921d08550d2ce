// Control messages: in order on a connection, lost with it; now and then one comes again, late.
#include <algorithm>

#include "simulation.h"

namespace baton::sim {
namespace {

std::string describe(const protocol::Message& message) {
  std::string out = protocol::name(message);
  std::visit(
      [&out](const auto& each) {
        if constexpr (requires { each.key; }) {
          out += " " + std::to_string(each.key.request.low) + " (" +
                 std::to_string(each.key.attempt.prefill_leg) + "," +
                 std::to_string(each.key.attempt.decode_leg) + ")";
        }
        if constexpr (requires {
                        each.first_index;
                        each.ids;
                      }) {
          out +=
              " from " + std::to_string(each.first_index) + " n " + std::to_string(each.ids.size());
        }
        if constexpr (requires { each.work; }) {
          out += " length " + std::to_string(each.work.length());
        }
        if constexpr (requires { each.reason; }) {
          out += " " + std::string(info(each.reason).label);
        }
      },
      message);
  return out;
}

void raise_to(Attempt& known, const Attempt& attempt) {
  known.prefill_leg = std::max(known.prefill_leg, attempt.prefill_leg);
  known.decode_leg = std::max(known.decode_leg, attempt.decode_leg);
}

/// The newest legs that a worker was asked for, and the planted bug that takes older ones for them.
void track_legs(Worker& w, protocol::Message& message, bool raise) {
  const auto asked = [&w](const protocol::AttemptKey& key) {
    raise_to(w.newest[key.request], key.attempt);
  };
  const auto ended = [&w, raise](protocol::AttemptKey& key) {
    const auto newest = w.newest.find(key.request);
    if (raise && newest != w.newest.end()) key.attempt = newest->second;
  };
  if (const auto* reserve = std::get_if<protocol::Reserve>(&message)) asked(reserve->key);
  if (const auto* prefill = std::get_if<protocol::Prefill>(&message)) asked(prefill->key);
  if (auto* cancel = std::get_if<protocol::Cancel>(&message)) ended(cancel->key);
}

}  // namespace

Duration Simulation::latency(const Worker& w) {
  Duration delay = between(50us, 2ms);
  if (chance(0.02)) delay += between(1ms, 100ms);
  if (now_ < w.stopped_until) delay += w.stopped_until - now_;
  return delay;
}

/// FIFO: a message never overtakes an earlier one of its connection.
Instant Simulation::in_order(const std::string& channel, Duration delay) {
  Instant& last = channels_[channel];
  last = std::max(last + 1ns, now_ + delay);
  return last;
}

void Simulation::on_worker(Worker& w, Duration delay, std::function<void()> run) {
  after(delay, [this, &w, epoch = w.epoch, run = std::move(run)] {
    if (!w.alive || w.epoch != epoch) return;
    if (now_ < w.stopped_until) return on_worker(w, w.stopped_until - now_, run);
    run();
  });
}

// ---- routers and workers ----

void Simulation::to_worker(Router& r, Worker& w, protocol::Message message) {
  const RouterLink& link = w.routers[r.node.value()];
  if (!link.connected) return;
  const std::uint64_t number = link.number;
  const Instant at = in_order(r.node.value() + ">" + w.name, latency(w));
  if (options_.duplicate_chance > 0 && chance(options_.duplicate_chance)) {
    on_worker(w, at - now_ + between(1ms, 900ms), [this, &r, &w, epoch = r.epoch, message] {
      if (r.epoch != epoch || !w.routers[r.node.value()].connected) return;
      ++outcome_.duplicates;
      log("late:");
      at_worker(r, w, message);
    });
  }
  on_worker(w, at - now_, [this, &r, &w, number, message = std::move(message)] {
    if (w.routers[r.node.value()].number == number) at_worker(r, w, message);
  });
}

void Simulation::at_worker(Router& r, Worker& w, protocol::Message message) {
  note(message.index());
  log("{} > {} {}", r.node.value(), w.name, describe(message));
  track_legs(w, message, options_.plant == Plant::accept_lower_legs);
  w.core->message(owner(r), message, now_, now_);
  if (const auto* cancel = std::get_if<protocol::Cancel>(&message)) {
    raise_to(w.gone[cancel->key.request], cancel->key.attempt);
  }
  settle(w);
  count_message(message);
}

/// What a router has ended on a worker does not come back, unless a newer leg was asked for.
void Simulation::check_gone(Worker& w, const protocol::Message& message) {
  const auto alive = [&](const protocol::AttemptKey& key) {
    const auto gone = w.gone.find(key.request);
    if (gone == w.gone.end() || key.attempt.prefill_leg > gone->second.prefill_leg ||
        key.attempt.decode_leg > gone->second.decode_leg) {
      return;
    }
    violation(w.name + " brings an ended attempt back: " + describe(message));
  };
  if (const auto* granted = std::get_if<protocol::Granted>(&message)) alive(granted->key);
  if (const auto* tokens = std::get_if<protocol::Tokens>(&message)) alive(tokens->key);
}

void Simulation::to_router(Router& r, Worker& w, protocol::Message message) {
  check_gone(w, message);
  const RouterLink& link = w.routers[r.node.value()];
  if (!link.connected) return;
  const std::uint64_t number = link.number;
  const router::WorkerRef from = ref(w);
  const Instant at = in_order(w.name + ">" + r.node.value(), latency(w));
  // An old inventory would say that a worker has forgotten what it was sent since.
  const bool may_come_late = !std::holds_alternative<protocol::Inventory>(message);
  if (may_come_late && options_.duplicate_chance > 0 && chance(options_.duplicate_chance)) {
    after(at - now_ + between(1ms, 900ms), [this, &r, &w, epoch = r.epoch, from, message] {
      if (r.epoch != epoch || !r.alive || !w.routers[r.node.value()].connected) return;
      if (from != ref(w)) return;
      ++outcome_.duplicates;
      log("late:");
      at_router(r, from, message);
    });
  }
  after(at - now_, [this, &r, &w, number, from, message = std::move(message)] {
    if (r.alive && w.routers[r.node.value()].number == number) at_router(r, from, message);
  });
}

void Simulation::at_router(Router& r, const router::WorkerRef& from,
                           const protocol::Message& message) {
  note(message.index() + 100);
  log("{} > {} {}", from.node.value(), r.node.value(), describe(message));
  r.table->message(from, message, now_);
  repeating_ = std::holds_alternative<protocol::Inventory>(message);
  settle(r);
  repeating_ = false;
  count_message(message);
}

// ---- pairs ----

void Simulation::to_pair(Worker& from, LinkId link, protocol::Message message) {
  for (auto& [name, id] : from.links) {
    if (id != link) continue;
    Worker& to = workers_.at(name);
    const Instant at = in_order(from.name + ">" + name, latency(to));
    on_worker(to, at - now_, [this, &to, link, message = std::move(message)] {
      const bool current = std::any_of(to.links.begin(), to.links.end(),
                                       [link](const auto& each) { return each.second == link; });
      if (!current) return;
      log("> {} {}", to.name, describe(message));
      pair_message(to, link, message);
      settle(to);
    });
    return;
  }
}

void Simulation::pair_message(Worker& to, LinkId link, const protocol::Message& message) {
  run_commands(to);
  if (const auto* commit = std::get_if<protocol::Commit>(&message)) {
    to.receiver->commit(link, *commit, now_);
  } else if (const auto* accepted = std::get_if<protocol::Accepted>(&message)) {
    to.sender->accepted(link, *accepted, now_);
  } else if (const auto* refused = std::get_if<protocol::CommitRefused>(&message)) {
    to.sender->commit_refused(link, *refused, now_);
  }
}

// ---- effects of a worker ----

void Simulation::flush_core(Worker& w) {
  note_freed(w);
  for (worker::NodeEffect& effect : w.core->take_effects()) {
    std::visit([&](auto& each) { execute(w, each); }, effect);
  }
}

void Simulation::settle(Worker& w) {
  for (bool any = true; any && w.alive;) {
    any = false;
    note_freed(w);
    for (worker::NodeEffect& effect : w.core->take_effects()) {
      any = true;
      std::visit([&](auto& each) { execute(w, each); }, effect);
    }
    for (handoff::SenderEffect& effect : w.sender->take_effects()) {
      any = true;
      std::visit([&](auto& each) { execute(w, each); }, effect);
    }
    for (handoff::ReceiverEffect& effect : w.receiver->take_effects()) {
      any = true;
      std::visit([&](auto& each) { execute(w, each); }, effect);
    }
  }
  if (w.alive && !w.stepping) begin_step(w);
}

void Simulation::execute(Worker& w, worker::ToOwner& e) {
  const auto found = routers_.find(e.owner.node.value());
  if (found == routers_.end() || found->second.epoch != e.owner.epoch) return;
  to_router(found->second, w, std::move(e.message));
}

void Simulation::execute(Worker&, worker::PrefixLookedUp& e) {
  outcome_.prefix_hit_tokens += e.hit_tokens;
}

void Simulation::execute(Worker& w, worker::PromptReady& e) {
  if (e.computed < 0 || e.cached < 0 || e.received < 0) {
    violation("the tokens of a prompt on " + w.name + " come from nowhere");
  }
}

void Simulation::execute(Worker&, worker::Counted& e) {
  switch (e.what) {
    case worker::Countable::preempted:
      ++outcome_.preemptions;
      return;
    case worker::Countable::lease_expired:
      ++outcome_.leases_expired;
      return;
    case worker::Countable::orphan_freed:
      ++outcome_.orphans_freed;
      return;
    case worker::Countable::request_finished:
    case worker::Countable::request_failed:
    case worker::Countable::request_cancelled:
    case worker::Countable::request_refused:
    case worker::Countable::handoff_accepted:
    case worker::Countable::handoff_failed:
      return;
  }
}

}  // namespace baton::sim
