// The forward pass: what a step writes into the cache and what it would read.
#include <algorithm>

#include "simulation.h"

namespace baton::sim {
namespace {

constexpr Duration layer_time = 200us;

/// Where a model layer lies: its group and its index there.
std::pair<std::uint32_t, std::uint32_t> place_of(std::uint32_t layer) {
  return layer == window_layer ? std::pair{1U, 0U} : std::pair{0U, layer / 2};
}

/// Hash of the ids that a row at `position` computes with: what is cached before it, and its input.
std::uint64_t hash_at(const engine::Sequence& sequence, std::int64_t position) {
  return mix(hash_of(sequence.ids(), static_cast<std::size_t>(position)),
             static_cast<std::uint64_t>(sequence.ids().back()));
}

/// The planted bug: the first row of a handed-over sequence is computed one position early.
void start_early(engine::StepPlan& plan, const engine::SequenceTable& table) {
  for (engine::DecodeRow& row : plan.decode) {
    if (table.find(row.sequence)->last_step() == 0) --row.position;
  }
}

}  // namespace

void Simulation::begin_step(Worker& w) {
  if (now_ < w.stopped_until) return;
  engine::StepPlan plan = w.core->next_step(now_);
  flush_core(w);
  if (plan.empty()) return;
  w.stepping = true;
  const Result<void> prepared = engine::prepare_step(plan, w.core->table(), w.core->pools());
  if (!prepared) {
    violation(w.name + ": step refused: " + prepared.error().message());
    return;
  }
  note_freed(w);  // what was evicted for the step is poisoned before the step writes
  if (options_.plant == Plant::index_unfinished) index_unfinished(w, plan);
  if (options_.plant == Plant::decode_before_end) start_early(plan, w.core->table());
  auto left = std::make_shared<std::set<engine::SequenceId>>();
  for (std::uint32_t layer = 0; layer < layers; ++layer) {
    on_worker(w, layer_time * (layer + 1),
              [this, &w, plan, layer, left] { compute_layer(w, plan, layer, *left); });
  }
  on_worker(w, layer_time * (layers + 1), [this, &w, plan, left] { end_step(w, plan, *left); });
}

/// The planted bug: a block is found by others before anything is in it.
void Simulation::index_unfinished(Worker& w, const engine::StepPlan& plan) {
  for (const auto& rows : plan.prefill) {
    const engine::Sequence& sequence = *w.core->table().find(rows.sequence);
    w.core->pools().seal(sequence.blocks(), sequence.prefix_keys(), rows.first_position,
                         rows.first_position + rows.count, {});
  }
}

/// Rows of sequences that were cancelled leave the step, as in the engine.
void Simulation::drop_cancelled(Worker& w, const engine::StepPlan& plan,
                                std::set<engine::SequenceId>& left) {
  const auto check = [&](engine::SequenceId id) {
    if (left.contains(id) || !w.core->cancelled(id)) return;
    left.insert(id);
    w.core->table().remove(id, w.core->pools());
  };
  for (const auto& row : plan.decode) check(row.sequence);
  for (const auto& rows : plan.prefill) check(rows.sequence);
}

void Simulation::compute_layer(Worker& w, const engine::StepPlan& plan, std::uint32_t layer,
                               std::set<engine::SequenceId>& left) {
  drop_cancelled(w, plan, left);
  for (const auto& row : plan.decode) {
    if (left.contains(row.sequence)) continue;
    check_cache(w, row.sequence, row.position, layer);
    write_cache(w, row.sequence, row.position, 1, layer);
  }
  for (const auto& rows : plan.prefill) {
    if (left.contains(rows.sequence)) continue;
    check_cache(w, rows.sequence, rows.first_position, layer);
    write_cache(w, rows.sequence, rows.first_position, rows.count, layer);
  }
  w.core->layer_done(static_cast<int>(layer), now_);
  settle(w);
}

Unit* Simulation::unit_at(Worker& w, const engine::Sequence& sequence, std::int64_t position,
                          std::uint32_t layer, int component) {
  const auto [group, index] = place_of(layer);
  const auto unit = static_cast<std::uint32_t>(position / unit_positions);
  const std::int32_t block =
      sequence.blocks().group(static_cast<int>(group)).blocks().at(unit / block_units);
  return block < 0 ? nullptr : &w.memory.unit(group, index, component, block, unit % block_units);
}

void Simulation::check_unshared(Worker& w, const engine::Sequence& sequence, std::int64_t position,
                                std::uint32_t layer) {
  const int group = static_cast<int>(place_of(layer).first);
  const auto index = static_cast<std::size_t>(position / unit_positions / block_units);
  const std::int32_t block = sequence.blocks().group(group).blocks().at(index);
  // The planted bug indexes blocks before they are whole; it shows where they are read.
  if (options_.plant == Plant::index_unfinished) return;
  if (w.core->pools().is_indexed(group, block)) {
    violation(w.name + ": a row is written into a block that others may hold");
  }
}

void Simulation::write_cache(Worker& w, engine::SequenceId id, std::int64_t first,
                             std::int64_t count, std::uint32_t layer) {
  const engine::Sequence& sequence = *w.core->table().find(id);
  const bool decodes = sequence.phase() == engine::Phase::decode;
  for (std::int64_t p = first; p < first + count; ++p) {
    const std::uint64_t hash =
        decodes ? hash_at(sequence, p) : hash_of(sequence.ids(), static_cast<std::size_t>(p + 1));
    for (int component = 1; component <= 2; ++component) {
      Unit* unit = unit_at(w, sequence, p, layer, component);
      if (unit == nullptr) continue;  // dropped by the window
      check_unshared(w, sequence, p, layer);
      if (p % unit_positions == 0) unit->assign(unit_positions, 0);
      (*unit)[static_cast<std::size_t>(p % unit_positions)] = cached_value(hash, layer, component);
    }
  }
}

void Simulation::check_cache(Worker& w, engine::SequenceId id, std::int64_t position,
                             std::uint32_t layer) {
  const engine::Sequence& sequence = *w.core->table().find(id);
  const std::int64_t first =
      layer == window_layer ? std::max<std::int64_t>(0, position - (options_.window - 1)) : 0;
  std::uint64_t hash = 7;
  for (std::int64_t p = 0; p < position; ++p) {
    hash = mix(hash, static_cast<std::uint64_t>(sequence.ids()[static_cast<std::size_t>(p)]));
    if (p < first) continue;
    for (int component = 1; component <= 2; ++component) {
      const Unit* unit = unit_at(w, sequence, p, layer, component);
      if (unit != nullptr && (*unit)[static_cast<std::size_t>(p % unit_positions)] ==
                                 cached_value(hash, layer, component)) {
        continue;
      }
      return violation(w.name + ": a row at " + std::to_string(position) +
                       " would read a wrong cache at " + std::to_string(p));
    }
  }
}

void Simulation::end_step(Worker& w, const engine::StepPlan& plan,
                          std::set<engine::SequenceId>& left) {
  drop_cancelled(w, plan, left);
  engine::StepEvents events;
  events.shape = plan.shape;
  events.took = layer_time * (layers + 1);
  engine::SequenceTable& sequences = w.core->table();
  const std::uint64_t number = sequences.next_step();
  const auto sample = [&](engine::SequenceId id, std::uint64_t hash) {
    engine::Sequence& sequence = *sequences.find(id);
    engine::TokenEvent event;
    event.sequence = id;
    event.index = sequence.generated_count();
    event.id = token_after(hash);
    event.finish = sequence.append(event.id);
    events.tokens.push_back(event);
  };
  for (const auto& row : plan.decode) {
    if (left.contains(row.sequence)) continue;
    engine::Sequence& sequence = *sequences.find(row.sequence);
    sequence.advance(1, number, w.core->pools());
    sample(row.sequence, hash_at(sequence, row.position));
  }
  for (const auto& rows : plan.prefill) {
    if (left.contains(rows.sequence)) continue;
    engine::Sequence& sequence = *sequences.find(rows.sequence);
    sequence.advance(rows.count, number, w.core->pools());
    events.chunks.push_back(rows);
    if (w.role == Role::decode && sequence.generated_count() == 0) {
      outcome_.local_rows += rows.count;
    }
    if (sequence.cached() != sequence.length()) continue;
    sample(rows.sequence, hash_of(sequence.ids(), sequence.ids().size()));
  }
  events.cancelled.assign(left.begin(), left.end());
  w.stepping = false;
  w.core->step_done(events, now_);
  settle(w);
}

}  // namespace baton::sim
