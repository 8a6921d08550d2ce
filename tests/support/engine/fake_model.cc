#include "support/engine/fake_model.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace baton::test {
namespace {

constexpr int layers_per_group = 2;

/// The finaliser of splitmix64.
std::uint64_t mix(std::uint64_t x) {
  x ^= x >> 30;
  x *= 0xBF58476D1CE4E5B9u;
  x ^= x >> 27;
  x *= 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

}  // namespace

FakeModel::FakeModel(FakeModelOptions options) : options_(std::move(options)) {
  config_.family = "fake";
  config_.kv_heads = 1;
  config_.head_dim = 4;  // a bf16 unit has 8 bytes a position: one entry
  config_.vocabulary = options_.vocabulary;
  config_.context_length = options_.context_length;
  config_.layers = layers_per_group * static_cast<int>(options_.windows.size());
  for (std::size_t g = 0; g < options_.windows.size(); ++g) {
    config_.groups.push_back({.window = options_.windows[g], .layers = {}});
  }
  // Groups alternate, as they do in real models.
  for (int layer = 0; layer < config_.layers; ++layer) {
    const auto group = static_cast<std::size_t>(layer) % options_.windows.size();
    config_.group_of_layer.push_back(static_cast<int>(group));
    config_.index_in_group.push_back(static_cast<int>(config_.groups[group].layers.size()));
    config_.groups[group].layers.push_back(layer);
  }
}

std::byte* FakeModel::entry(kvcache::Arena& arena, const models::SequenceRows& rows, int layer,
                            std::int64_t position) const {
  const int group = config_.group_of_layer[static_cast<std::size_t>(layer)];
  const std::int64_t size = arena.config().block_units * tensor::unit_positions;
  const std::vector<std::int32_t>& table = *rows.block_tables[static_cast<std::size_t>(group)];
  const std::int32_t block = table.at(static_cast<std::size_t>(position / size));
  std::byte* memory = arena.block(group, config_.index_in_group[static_cast<std::size_t>(layer)],
                                  tensor::KvPart::k, block);
  return memory + position % size * static_cast<std::int64_t>(sizeof(std::uint64_t));
}

void FakeModel::run_layer(const models::SequenceRows& rows, int layer, kvcache::Arena& arena,
                          std::vector<std::uint64_t>& states) {
  const int group = config_.group_of_layer[static_cast<std::size_t>(layer)];
  const std::int64_t window = config_.groups[static_cast<std::size_t>(group)].window;
  for (std::size_t i = 0; i < states.size(); ++i) {
    const std::int64_t position = rows.first_position + static_cast<std::int64_t>(i);
    std::memcpy(entry(arena, rows, layer, position), &states[i], sizeof(std::uint64_t));
    const std::int64_t first = window == 0 ? 0 : std::max<std::int64_t>(0, position - window + 1);
    std::uint64_t hash = static_cast<std::uint64_t>(layer);
    for (std::int64_t p = first; p <= position; ++p) {
      std::uint64_t value = 0;
      std::memcpy(&value, entry(arena, rows, layer, p), sizeof(value));
      hash = mix(hash + value + static_cast<std::uint64_t>(p) * 0x9E3779B97F4A7C15u);
    }
    states[i] = hash;
  }
}

void FakeModel::add_logits(const models::SequenceRows& rows,
                           const std::vector<std::uint64_t>& states) {
  const std::uint64_t state = states.back();
  const std::size_t begin = logits_.size();
  for (int v = 0; v < options_.vocabulary; ++v) {
    const std::uint64_t hash = mix(state ^ (static_cast<std::uint64_t>(v) << 32));
    // Uniform in [-4, 4): some tokens stand out, none always wins.
    logits_.push_back(static_cast<float>(hash >> 40) * (8.0f / 16777216.0f) - 4.0f);
  }
  if (options_.spoil) {
    options_.spoil(rows.first_position + static_cast<std::int64_t>(rows.tokens.size()) - 1,
                   logits_.data() + begin);
  }
}

Result<models::StepOutput> FakeModel::forward(std::span<const models::SequenceRows> batch,
                                              kvcache::Arena& arena,
                                              models::StepObserver* observer) {
  std::vector<std::vector<std::uint64_t>> states;
  for (const models::SequenceRows& rows : batch) {
    states.emplace_back(rows.tokens.begin(), rows.tokens.end());
    rows_seen_ += static_cast<std::int64_t>(rows.tokens.size());
  }
  std::vector<bool> left(batch.size(), false);
  for (int layer = 0; layer < config_.layers; ++layer) {
    for (std::size_t i = 0; i < batch.size(); ++i) {
      if (!left[i]) run_layer(batch[i], layer, arena, states[i]);
    }
    if (observer == nullptr) continue;
    observer->layer_done(layer);
    for (std::size_t i = 0; i < batch.size(); ++i) left[i] = left[i] || observer->cancelled(i);
  }
  logits_.clear();
  models::StepOutput output;
  int rows = 0;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const bool wanted = batch[i].logits == models::LogitRows::last && !left[i];
    output.first_logits_row.push_back(wanted ? rows++ : -1);
    if (wanted) add_logits(batch[i], states[i]);
  }
  output.logits = {logits_.data(), rows, options_.vocabulary, options_.vocabulary};
  return output;
}

}  // namespace baton::test
