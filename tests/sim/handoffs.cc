// The transport thread of a worker, and the bytes between two of them.
#include <algorithm>

#include "simulation.h"

namespace baton::sim {

// ---- between the engine's and the transport's thread ----

void Simulation::execute(Worker& w, worker::ToDriver& e) {
  w.commands.push_back(std::move(e.command));
  if (options_.thread_latency == Duration{}) return run_commands(w);
  on_worker(w, between(0ns, options_.thread_latency), [this, &w] {
    run_commands(w);
    settle(w);
  });
}

/// As on the product's transport thread, commands are handled before what came after they were
/// given.
void Simulation::run_commands(Worker& w) {
  while (!w.commands.empty()) {
    handoff::EngineCommand command = std::move(w.commands.front());
    w.commands.pop_front();
    std::visit([&](auto& each) { drive(w, each); }, command);
  }
}

void Simulation::to_core(Worker& w, worker::DriverEvent event) {
  if (options_.thread_latency == Duration{}) return w.core->driver_event(event, now_);
  const Instant at = in_order(w.name + " transport", between(0ns, options_.thread_latency));
  on_worker(w, at - now_, [this, &w, event = std::move(event)] {
    w.core->driver_event(event, now_);
    settle(w);
  });
}

void Simulation::drive(Worker& w, handoff::BeginSource& c) {
  w.sender->begin(c.source, c.key, c.length, std::move(c.blocks), now_);
}
void Simulation::drive(Worker& w, handoff::ExtendSource& c) {
  w.sender->extend(c.source, std::move(c.blocks));
}
void Simulation::drive(Worker& w, handoff::LayerReady& c) {
  const auto ready = w.sender->newly_ready(c.source, c.layer, c.positions);
  if (ready.count == 0) return;
  std::vector<Digest128> digests = digest(w, ready.pieces);
  std::vector<Digest128> v(digests.begin() + ready.count, digests.end());
  digests.resize(ready.count);
  w.sender->units_ready(c.source, c.layer, ready.first, digests, v, c.computed_at, now_);
}
void Simulation::drive(Worker& w, handoff::CommitSource& c) {
  w.sender->commit(c.source, c.first_index, c.tokens, c.sampled_at, now_);
}
void Simulation::drive(Worker& w, handoff::SetTarget& c) {
  if (options_.plant == Plant::send_held) hold_nothing(c.grant);
  w.sender->target(c.source, c.key, c.node, c.epoch, c.grant, now_);
}
void Simulation::drive(Worker& w, handoff::AbortSource& c) {
  if (options_.plant == Plant::release_early) {
    w.core->driver_event(handoff::SourceIdle{c.source}, now_);
  }
  w.sender->abort(c.source);
}
/// The planted bug: what is shared is received once more.
void Simulation::hold_nothing(protocol::Grant& grant) {
  for (protocol::GrantGroup& group : grant.groups) group.held_units = 0;
}

/// A block that is held for the first time may be another one than its key says.
void Simulation::drive(Worker& w, handoff::OpenGrant& c) {
  if (options_.plant == Plant::send_held) hold_nothing(c.grant);
  for (const protocol::GrantGroup& group : c.grant.groups) outcome_.held_units += group.held_units;
  w.receiver->open(c.key, c.grant, std::move(c.blocks));
  if (w.receiver->next_undigested()) digest_later(w);
}

/// One block a turn, as the transport thread does; messages may come in between.
void Simulation::digest_later(Worker& w) {
  on_worker(w, between(0ns, options_.thread_latency), [this, &w] { digest_held(w); });
}

void Simulation::digest_held(Worker& w) {
  const std::optional<handoff::Receiver::HeldBlock> held = w.receiver->next_undigested();
  if (!held) return;
  std::vector<Digest128> contents = digest(w, held->pieces);
  if (options_.wrong_held_chance > 0 && chance(options_.wrong_held_chance)) {
    ++outcome_.wrong_held;
    if (options_.plant == Plant::trust_held) {
      w.memory.unit(held->pieces.front(), 0)[0] ^= 1;
    } else {
      contents.front().low ^= 1;
    }
  }
  w.receiver->digested(*held, contents);
  settle(w);
  if (w.receiver->next_undigested()) digest_later(w);
}

void Simulation::execute(Worker& w, handoff::HeldUnitsDiffer& e) {
  if (options_.plant == Plant::keep_wrong_held) return;
  to_core(w, e);
}
void Simulation::drive(Worker& w, handoff::CloseGrant& c) {
  if (options_.plant == Plant::skip_quarantine) {
    w.core->driver_event(handoff::GrantClosed{c.grant}, now_);
  }
  w.receiver->close(c.grant);
}

std::vector<Digest128> Simulation::digest(Worker& w, const std::vector<handoff::Piece>& pieces) {
  std::vector<Digest128> out;
  for (const handoff::Piece& piece : pieces) {
    for (std::uint32_t i = 0; i < piece.count; ++i) {
      out.push_back(digest_of_unit(w.memory.unit(piece, i)));
    }
  }
  return out;
}

// ---- data messages ----

void Simulation::note_freed(Worker& w) {
  for (const kvcache::FreedBlock& freed : w.core->pools().take_freed()) {
    ++w.tickets[{freed.group, freed.block}];
    w.memory.poison_block(static_cast<std::uint32_t>(freed.group), freed.block);
  }
}

std::vector<std::uint64_t> Simulation::tickets_of(Worker& w,
                                                  const std::vector<handoff::Piece>& pieces) {
  note_freed(w);
  std::vector<std::uint64_t> out;
  for (const handoff::Piece& piece : pieces) {
    out.push_back(w.tickets[{static_cast<int>(piece.group), piece.block}]);
  }
  return out;
}

void Simulation::execute(Worker& w, handoff::SendUnits& e) {
  for (auto& [name, link] : w.links) {
    if (link != e.link) continue;
    Worker& to = workers_.at(name);
    const TransferId offer(next_offer_++);
    transfers_[offer] = {w.name,
                         w.epoch,
                         name,
                         to.epoch,
                         e.id,
                         e.pieces,
                         tickets_of(w, e.pieces),
                         e.header,
                         chance(options_.flip_chance)};
    on_worker(to, latency(to), [this, &to, offer, link = e.link] { offered(to, offer, link); });
    return;
  }
  w.sender->send_done(e.id, handoff::SendOutcome::lost, now_);
}

void Simulation::offered(Worker& to, TransferId offer, LinkId link) {
  const auto found = transfers_.find(offer);
  if (found == transfers_.end()) return;
  const protocol::UnitHeader header = found->second.header;
  run_commands(to);
  to.receiver->offered(link, offer, header,
                       2 * header.units * static_cast<std::uint64_t>(unit_positions) * 8);
  settle(to);
}

void Simulation::execute(Worker& w, handoff::AcceptUnits& e) {
  for (const handoff::Piece& piece : e.pieces) {
    if (!w.core->pools().is_indexed(static_cast<int>(piece.group), piece.block)) continue;
    violation(w.name + ": a receive into a block that others may hold");
  }
  on_worker(w, latency(w), [this, &w, e, tickets = tickets_of(w, e.pieces)] {
    if (transfers_.contains(e.offer) && tickets_of(w, e.pieces) != tickets) {
      violation(w.name + ": a receive into a block that was freed");
    }
    copy(w, e.offer, e.pieces);
  });
}

/// The bytes cross now: whatever the sender's blocks hold at this moment.
void Simulation::copy(Worker& w, TransferId offer, const std::vector<handoff::Piece>& pieces) {
  const auto found = transfers_.find(offer);
  if (found == transfers_.end()) return;
  const Transfer transfer = found->second;
  transfers_.erase(found);
  Worker& from = workers_.at(transfer.sender);
  const bool same_life = from.epoch == transfer.sender_epoch;
  if (same_life && tickets_of(from, transfer.from) != transfer.from_tickets) {
    violation(from.name + ": a send from a block that was freed");
  }
  move_bytes(w, transfer, pieces);
  // The planted bug takes the digests of what was sent for those of what arrived.
  const bool skip = options_.plant == Plant::skip_verification;
  w.receiver->received(offer, skip ? digest(from, transfer.from) : digest(w, pieces));
  settle(w);
  end_send(transfer, handoff::SendOutcome::ok);
}

void Simulation::move_bytes(Worker& to, const Transfer& transfer,
                            const std::vector<handoff::Piece>& pieces) {
  Worker& from = workers_.at(transfer.sender);
  std::vector<const Unit*> source;
  for (const handoff::Piece& piece : transfer.from) {
    for (std::uint32_t i = 0; i < piece.count; ++i) source.push_back(&from.memory.unit(piece, i));
  }
  std::size_t at = 0;
  for (const handoff::Piece& piece : pieces) {
    for (std::uint32_t i = 0; i < piece.count; ++i) to.memory.unit(piece, i) = *source[at++];
  }
  if (transfer.flipped) {
    ++outcome_.flips;
    to.memory.unit(pieces.front(), 0)[0] ^= 1;
  }
}

/// The planted bug of a one-sided put: the sender's slots are written whatever they hold by now.
void Simulation::write_unchecked(Worker& to, const Transfer& transfer) {
  const protocol::UnitHeader& header = transfer.header;
  handoff::LocalBlocks blocks;
  blocks.block_units = block_units;
  blocks.first_block = header.first_unit / block_units;
  for (const protocol::SlotRun& run : header.slots) {
    for (std::uint32_t i = 0; i < run.count; ++i) {
      blocks.blocks.push_back(static_cast<std::int32_t>(run.first + i));
    }
  }
  const std::uint32_t layer_in_group = header.layer == window_layer ? 0 : header.layer / 2;
  move_bytes(
      to, transfer,
      handoff::pieces_of(blocks, header.group, layer_in_group, header.first_unit, header.units));
}

void Simulation::end_send(const Transfer& transfer, handoff::SendOutcome outcome) {
  Worker& from = workers_.at(transfer.sender);
  if (!from.alive || from.epoch != transfer.sender_epoch) return;
  from.sender->send_done(transfer.send, outcome, now_);
  settle(from);
}

void Simulation::execute(Worker& w, handoff::RefuseUnits& e) {
  ++outcome_.refused_units;
  const auto found = transfers_.find(e.offer);
  if (found == transfers_.end()) return;
  const Transfer transfer = found->second;
  transfers_.erase(found);
  if (options_.plant == Plant::write_unchecked) write_unchecked(w, transfer);
  Worker& from = workers_.at(transfer.sender);
  on_worker(from, latency(from),
            [this, transfer] { end_send(transfer, handoff::SendOutcome::refused); });
}

void Simulation::execute(Worker& w, handoff::CancelReceive& e) {
  on_worker(w, latency(w), [this, &w, offer = e.offer] {
    const auto found = transfers_.find(offer);
    if (found == transfers_.end()) return;
    const Transfer transfer = found->second;
    transfers_.erase(found);
    w.receiver->received(offer, {});
    settle(w);
    end_send(transfer, handoff::SendOutcome::cancelled);
  });
}

void Simulation::execute(Worker& w, handoff::CancelSend& e) {
  on_worker(w, latency(w), [this, &w, send = e.id] {
    const auto found = std::find_if(transfers_.begin(), transfers_.end(), [&](const auto& each) {
      return each.second.send == send && each.second.sender == w.name;
    });
    if (found == transfers_.end()) return;
    const TransferId offer = found->first;
    const Transfer transfer = found->second;
    transfers_.erase(found);
    Worker& to = workers_.at(transfer.receiver);
    if (to.alive && to.epoch == transfer.epoch) {
      to.receiver->received(offer, {});
      settle(to);
    }
    end_send(transfer, handoff::SendOutcome::cancelled);
  });
}

}  // namespace baton::sim
