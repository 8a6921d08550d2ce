#include "baton/engine/engine.h"

#include <cstring>

#include <xxhash.h>

#include "baton/base/check.h"

namespace baton::engine {

/// The plan in the forward pass's terms. Block tables are copied: a sequence cancelled between two
/// layers gives its blocks back while the model still holds pointers to the tables.
struct Engine::Batch {
  struct Row {
    SequenceId id;
    std::vector<std::vector<std::int32_t>> tables;
    std::vector<const std::vector<std::int32_t>*> table_pointers;
    std::int64_t first = 0;
    std::int64_t count = 0;
    bool samples = false;
    bool cancelled = false;
  };

  std::vector<Row> rows;
  std::vector<models::SequenceRows> sequences;
};

class Engine::Adapter : public models::StepObserver {
 public:
  Adapter(Engine& engine, Batch& batch, StepWatcher& watcher)
      : engine_(engine), batch_(batch), watcher_(watcher) {}

  void layer_done(int layer) override { watcher_.layer_done(layer); }

  bool cancelled(std::size_t index) override {
    Batch::Row& row = batch_.rows[index];
    if (!row.cancelled && watcher_.cancelled(row.id)) {
      row.cancelled = true;
      // The ids stay until the step has ended: the model may still point at them.
      engine_.table_.find(row.id)->release(engine_.pools_);
    }
    return row.cancelled;
  }

 private:
  Engine& engine_;
  Batch& batch_;
  StepWatcher& watcher_;
};

Engine::Engine(models::Model& model, kvcache::Arena& arena, kvcache::BlockPools& pools,
               SequenceTable& table)
    : model_(model), arena_(arena), pools_(pools), table_(table) {
  const auto& groups = arena.config().groups;
  BATON_CHECK(static_cast<int>(groups.size()) == pools.groups());
  BATON_CHECK(arena.config().block_units * tensor::unit_positions ==
              pools.config().block_positions);
  for (std::size_t g = 0; g < groups.size(); ++g) {
    BATON_CHECK(groups[g].blocks == pools.config().groups[g].blocks);
  }
}

void Engine::add_rows(Batch& batch, SequenceId id, std::int64_t first, std::int64_t count) {
  const Sequence& sequence = *table_.find(id);
  Batch::Row row{.id = id, .tables = {}, .table_pointers = {}, .first = first, .count = count};
  row.samples = first + count == sequence.length();
  for (int g = 0; g < pools_.groups(); ++g) {
    row.tables.push_back(sequence.blocks().group(g).blocks());
  }
  batch.rows.push_back(std::move(row));
}

Result<StepEvents> Engine::step(const StepPlan& plan, StepWatcher* watcher) {
  BATON_TRY(prepare_step(plan, table_, pools_));
  poison_freed();
  kernels::set_engine_float_mode();
  const Instant started = monotonic_now();
  Batch batch;
  for (const DecodeRow& row : plan.decode) add_rows(batch, row.sequence, row.position, 1);
  for (const PrefillRows& rows : plan.prefill) {
    add_rows(batch, rows.sequence, rows.first_position, rows.count);
  }
  for (Batch::Row& row : batch.rows) {
    for (const auto& table : row.tables) row.table_pointers.push_back(&table);
    const auto ids = table_.find(row.id)->ids();
    batch.sequences.push_back(
        {.tokens =
             ids.subspan(static_cast<std::size_t>(row.first), static_cast<std::size_t>(row.count)),
         .first_position = row.first,
         .block_tables = row.table_pointers,
         .logits = row.samples ? models::LogitRows::last : models::LogitRows::none});
  }
  StepEvents events;
  if (!batch.rows.empty()) {
    std::optional<Adapter> adapter;
    if (watcher != nullptr) adapter.emplace(*this, batch, *watcher);
    BATON_ASSIGN(const models::StepOutput output,
                 model_.forward(batch.sequences, arena_, adapter ? &*adapter : nullptr));
    finish_rows(batch, output, events);
    for (const PrefillRows& rows : plan.prefill) {
      if (table_.find(rows.sequence) != nullptr) events.chunks.push_back(rows);
    }
  }
  for (const DecodeRow& row : plan.decode) events.shape.add(row.position, 1);
  for (const PrefillRows& rows : plan.prefill) events.shape.add(rows.first_position, rows.count);
  ++counters_.steps;
  counters_.decode_rows += plan.decode.size();
  for (const PrefillRows& rows : plan.prefill) {
    counters_.prefill_rows += static_cast<std::uint64_t>(rows.count);
  }
  events.took = monotonic_now() - started;
  poison_freed();
  return events;
}

void Engine::finish_rows(const Batch& batch, const models::StepOutput& output, StepEvents& events) {
  const std::uint64_t number = table_.next_step();
  for (std::size_t i = 0; i < batch.rows.size(); ++i) {
    const Batch::Row& row = batch.rows[i];
    if (row.cancelled) {
      table_.remove(row.id, pools_);
      events.cancelled.push_back(row.id);
      continue;
    }
    table_.find(row.id)->advance(row.count, number, pools_);
    if (!row.samples) continue;
    BATON_CHECK(output.first_logits_row[i] >= 0);
    const float* logits = output.logits.row(output.first_logits_row[i]);
    sample(row.id, {logits, static_cast<std::size_t>(output.logits.cols)}, events);
  }
}

void Engine::sample(SequenceId id, std::span<const float> logits, StepEvents& events) {
  Sequence& sequence = *table_.find(id);
  auto sampled = sampler_.sample(logits, sequence);
  if (sampled.has_error()) {
    events.failed.push_back({id, sampled.error()});
    return;
  }
  TokenEvent event;
  event.sequence = id;
  event.index = sequence.generated_count();
  event.id = sampled->id;
  if (sequence.logits_digest()) event.logits_digest = digest_of(logits);
  event.logprobs = std::move(sampled->logprobs);
  event.finish = sequence.append(sampled->id);
  events.tokens.push_back(std::move(event));
}

void Engine::poison_freed() {
  constexpr int poison = 0xDD;
  for (const kvcache::FreedBlock& freed : pools_.take_freed()) {
    const int layers = arena_.config().groups[static_cast<std::size_t>(freed.group)].layers;
    for (int layer = 0; layer < layers; ++layer) {
      for (const auto part : {tensor::KvPart::k, tensor::KvPart::v}) {
        std::memset(arena_.block(freed.group, layer, part, freed.block), poison,
                    arena_.block_bytes());
      }
    }
  }
}

Digest128 digest_of(std::span<const float> logits) {
  const XXH128_hash_t hash = XXH3_128bits(logits.data(), logits.size_bytes());
  return {.high = hash.high64, .low = hash.low64};
}

}  // namespace baton::engine
