#include "step_rows.h"

#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "baton/base/check.h"

namespace baton::models {
namespace {

std::int64_t block_positions(const kvcache::Arena& arena) {
  return static_cast<std::int64_t>(arena.config().block_units) * tensor::unit_positions;
}

std::size_t blocks_for(const SequenceRows& rows, std::int64_t positions_per_block) {
  const std::int64_t end = rows.first_position + static_cast<std::int64_t>(rows.tokens.size());
  return static_cast<std::size_t>((end + positions_per_block - 1) / positions_per_block);
}

/// Rows [from, from + count) become [to, to + count), to <= from.
void move_up(kernels::Rows rows, int from, int to, int count) {
  if (from == to) return;
  for (int i = 0; i < count; ++i) {
    const float* row = rows.row(from + i);
    std::copy(row, row + rows.cols, rows.row(to + i));
  }
}

Error refused(std::size_t sequence, const std::string& problem) {
  return {Reason::invalid_request, fmt::format("sequence {} of the step: {}", sequence, problem)};
}

Result<void> check_table(const LayerGroup& group, std::size_t sequence, const SequenceRows& rows,
                         const std::vector<std::int32_t>& table, std::int32_t blocks,
                         std::int64_t positions_per_block) {
  const std::size_t needed = blocks_for(rows, positions_per_block);
  if (table.size() < needed) {
    return refused(sequence,
                   fmt::format("its table has {} blocks, {} are needed", table.size(), needed));
  }
  // The first row's window starts here; older blocks may be gone.
  const std::int64_t visible = group.window == 0 ? 0 : rows.first_position - group.window + 1;
  for (std::size_t i = 0; i < needed; ++i) {
    const bool dropped = table[i] == -1;
    const std::int64_t end = (static_cast<std::int64_t>(i) + 1) * positions_per_block;
    if (dropped ? end > visible : table[i] < 0 || table[i] >= blocks) {
      return refused(sequence, fmt::format("entry {} of its table is {}", i, table[i]));
    }
  }
  return ok();
}

Result<void> check_tokens(const ModelConfig& config, std::int64_t context_length,
                          std::size_t sequence, const SequenceRows& rows) {
  const auto count = static_cast<std::int64_t>(rows.tokens.size());
  if (rows.first_position < 0 || count > context_length ||
      rows.first_position > context_length - count) {
    return refused(sequence,
                   fmt::format("{} tokens from position {} on are outside the context of {}", count,
                               rows.first_position, context_length));
  }
  for (const TokenId token : rows.tokens) {
    if (token < 0 || token >= config.vocabulary) {
      return refused(sequence, fmt::format("token id {} is outside the vocabulary of {}", token,
                                           config.vocabulary));
    }
  }
  return ok();
}

}  // namespace

Result<void> check_batch(const ModelConfig& config, std::int64_t context_length,
                         std::span<const SequenceRows> batch, const kvcache::Arena& arena) {
  const kvcache::ArenaConfig& cache = arena.config();
  BATON_CHECK(cache.groups.size() == config.groups.size());
  BATON_CHECK(cache.unit.kv_heads == config.kv_heads && cache.unit.head_dim == config.head_dim);
  for (std::size_t sequence = 0; sequence < batch.size(); ++sequence) {
    const SequenceRows& rows = batch[sequence];
    BATON_TRY(check_tokens(config, context_length, sequence, rows));
    if (rows.block_tables.size() != config.groups.size()) {
      return refused(sequence, fmt::format("{} block tables for {} layer groups",
                                           rows.block_tables.size(), config.groups.size()));
    }
    for (std::size_t group = 0; group < config.groups.size(); ++group) {
      BATON_TRY(check_table(config.groups[group], sequence, rows, *rows.block_tables[group],
                            cache.groups[group].blocks, block_positions(arena)));
    }
  }
  return ok();
}

void StepRows::begin(std::span<const SequenceRows> batch) {
  tokens_.clear();
  positions_.clear();
  live_.clear();
  for (std::size_t sequence = 0; sequence < batch.size(); ++sequence) {
    const SequenceRows& rows = batch[sequence];
    if (rows.tokens.empty()) continue;
    live_.push_back({sequence, this->rows(), static_cast<int>(rows.tokens.size())});
    tokens_.insert(tokens_.end(), rows.tokens.begin(), rows.tokens.end());
    for (std::size_t i = 0; i < rows.tokens.size(); ++i) {
      positions_.push_back(rows.first_position + static_cast<std::int64_t>(i));
    }
  }
}

std::span<const kernels::RowSpan> StepRows::spans(const ModelConfig& config, int layer,
                                                  std::span<const SequenceRows> batch,
                                                  kvcache::Arena& arena) {
  const int group = config.group_of_layer[static_cast<std::size_t>(layer)];
  const int index = config.index_in_group[static_cast<std::size_t>(layer)];
  const std::int64_t positions_per_block = block_positions(arena);
  std::size_t total = 0;
  for (const Live& live : live_) {
    total += 2 * blocks_for(batch[live.sequence], positions_per_block);
  }
  blocks_.resize(total);
  spans_.clear();
  std::byte** next = blocks_.data();
  for (const Live& live : live_) {
    const SequenceRows& rows = batch[live.sequence];
    const std::vector<std::int32_t>& table = *rows.block_tables[static_cast<std::size_t>(group)];
    const std::size_t count = blocks_for(rows, positions_per_block);
    std::byte** const k = next;
    std::byte** const v = next + count;
    for (std::size_t i = 0; i < count; ++i) {
      const bool dropped = table[i] < 0;
      k[i] = dropped ? nullptr : arena.block(group, index, tensor::KvPart::k, table[i]);
      v[i] = dropped ? nullptr : arena.block(group, index, tensor::KvPart::v, table[i]);
    }
    next += 2 * count;
    const std::int64_t first = positions_[static_cast<std::size_t>(live.row)];
    spans_.push_back({live.row, live.count, first, {{k, count}, {v, count}}});
  }
  return spans_;
}

bool StepRows::drop_cancelled(StepObserver& observer, kernels::Rows hidden) {
  int kept_rows = 0;
  std::size_t kept = 0;
  for (const Live& live : live_) {
    if (observer.cancelled(live.sequence)) continue;
    move_up(hidden, live.row, kept_rows, live.count);
    move_positions(live.row, kept_rows, live.count);
    live_[kept++] = {live.sequence, kept_rows, live.count};
    kept_rows += live.count;
  }
  const bool dropped = kept != live_.size();
  keep(kept, kept_rows);
  return dropped;
}

void StepRows::keep_wanted(std::span<const SequenceRows> batch, kernels::Rows hidden,
                           kernels::Rows q) {
  int kept_rows = 0;
  std::size_t kept = 0;
  for (const Live& live : live_) {
    const LogitRows wanted = batch[live.sequence].logits;
    if (wanted == LogitRows::none) continue;
    const int skipped = wanted == LogitRows::last ? live.count - 1 : 0;
    const int count = live.count - skipped;
    move_up(hidden, live.row + skipped, kept_rows, count);
    move_up(q, live.row + skipped, kept_rows, count);
    move_positions(live.row + skipped, kept_rows, count);
    live_[kept++] = {live.sequence, kept_rows, count};
    kept_rows += count;
  }
  keep(kept, kept_rows);
}

void StepRows::move_positions(int from, int to, int count) {
  if (from == to) return;
  const auto first = positions_.begin() + from;
  std::copy(first, first + count, positions_.begin() + to);
}

void StepRows::keep(std::size_t sequences, int rows) {
  live_.resize(sequences);
  positions_.resize(static_cast<std::size_t>(rows));
}

}  // namespace baton::models
