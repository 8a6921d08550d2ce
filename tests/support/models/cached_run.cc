#include "support/models/cached_run.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>

#include "baton/base/check.h"

namespace baton::test {
namespace {

constexpr int not_a_number_byte = 0xFF;

std::int64_t blocks_for(std::int64_t positions, std::int64_t block_positions) {
  return (positions + block_positions - 1) / block_positions;
}

kvcache::Arena make_arena(const models::ModelConfig& config, const CacheOptions& options) {
  kvcache::ArenaConfig arena;
  arena.unit = {options.dtype, config.kv_heads, config.head_dim};
  arena.block_units = options.block_units;
  const std::int64_t per_sequence =
      blocks_for(options.positions, options.block_units * tensor::unit_positions);
  for (const models::LayerGroup& group : config.groups) {
    arena.groups.push_back({static_cast<int>(group.layers.size()),
                            static_cast<std::int32_t>(options.sequences * per_sequence)});
  }
  auto made = kvcache::Arena::create(arena);
  BATON_CHECK(made.has_value());
  return std::move(*made);
}

}  // namespace

CachedRun::CachedRun(models::Model& model, const CacheOptions& options)
    : model_(model),
      block_positions_(options.block_units * tensor::unit_positions),
      arena_(make_arena(model.config(), options)),
      lengths_(static_cast<std::size_t>(options.sequences)) {
  std::mt19937_64 random(options.seed);
  const std::size_t groups = model.config().groups.size();
  const auto per_sequence = blocks_for(options.positions, block_positions_);
  tables_.resize(lengths_.size() * groups);
  for (std::size_t group = 0; group < groups; ++group) {
    std::vector<std::int32_t> blocks(lengths_.size() * static_cast<std::size_t>(per_sequence));
    std::iota(blocks.begin(), blocks.end(), 0);
    std::ranges::shuffle(blocks, random);
    for (const std::int32_t block : blocks) poison(group, block);
    for (int sequence = 0; sequence < options.sequences; ++sequence) {
      const auto first = blocks.begin() + sequence * per_sequence;
      table(sequence, group).assign(first, first + per_sequence);
    }
  }
}

std::vector<std::int32_t>& CachedRun::table(int sequence, std::size_t group) {
  return tables_[static_cast<std::size_t>(sequence) * model_.config().groups.size() + group];
}

void CachedRun::poison(std::size_t group, std::int32_t block) {
  for (int layer = 0; layer < arena_.config().groups[group].layers; ++layer) {
    for (const auto part : {tensor::KvPart::k, tensor::KvPart::v}) {
      std::memset(arena_.block(static_cast<int>(group), layer, part, block), not_a_number_byte,
                  arena_.block_bytes());
    }
  }
}

Result<models::StepOutput> CachedRun::step(std::span<const Part> parts,
                                           models::StepObserver* observer) {
  const std::size_t groups = model_.config().groups.size();
  std::vector<models::SequenceRows> batch;
  std::vector<std::vector<const std::vector<std::int32_t>*>> tables;
  for (const Part& part : parts) {
    auto& mine = tables.emplace_back();
    for (std::size_t group = 0; group < groups; ++group) {
      mine.push_back(&table(part.sequence, group));
    }
  }
  for (std::size_t i = 0; i < parts.size(); ++i) {
    batch.push_back({parts[i].tokens, length(parts[i].sequence), tables[i], parts[i].logits});
  }
  auto output = model_.forward(batch, arena_, observer);
  if (output.has_error()) return output;
  for (const Part& part : parts) {
    lengths_[static_cast<std::size_t>(part.sequence)] +=
        static_cast<std::int64_t>(part.tokens.size());
  }
  return output;
}

std::vector<std::vector<float>> CachedRun::append(int sequence, std::span<const TokenId> tokens) {
  const Part part{sequence, tokens, models::LogitRows::all};
  const auto output = step({&part, 1});
  BATON_CHECK(output.has_value());
  std::vector<std::vector<float>> rows;
  for (int r = 0; r < output->logits.rows; ++r) {
    const float* row = output->logits.row(r);
    rows.emplace_back(row, row + output->logits.cols);
  }
  return rows;
}

void CachedRun::drop_unseen_blocks(int sequence) {
  for (std::size_t group = 0; group < model_.config().groups.size(); ++group) {
    const int window = model_.config().groups[group].window;
    if (window == 0) continue;
    auto& blocks = table(sequence, group);
    const std::int64_t first_seen = std::max<std::int64_t>(0, length(sequence) - window + 1);
    for (std::int64_t i = 0; i < first_seen / block_positions_; ++i) {
      std::int32_t& block = blocks[static_cast<std::size_t>(i)];
      if (block < 0) continue;
      poison(group, block);
      block = -1;
    }
  }
}

std::vector<std::byte> CachedRun::cached_bytes(int sequence) {
  std::vector<std::byte> bytes;
  const std::int64_t units = tensor::units_for(length(sequence));
  const int per_block = arena_.config().block_units;
  const std::size_t unit_bytes = arena_.config().unit.unit_bytes();
  for (std::size_t group = 0; group < model_.config().groups.size(); ++group) {
    for (int layer = 0; layer < arena_.config().groups[group].layers; ++layer) {
      for (const auto part : {tensor::KvPart::k, tensor::KvPart::v}) {
        for (std::int64_t unit = 0; unit < units; ++unit) {
          const std::int32_t block =
              table(sequence, group)[static_cast<std::size_t>(unit / per_block)];
          if (block < 0) continue;
          const std::byte* at = arena_.block(static_cast<int>(group), layer, part, block) +
                                static_cast<std::size_t>(unit % per_block) * unit_bytes;
          bytes.insert(bytes.end(), at, at + unit_bytes);
        }
      }
    }
  }
  return bytes;
}

}  // namespace baton::test
