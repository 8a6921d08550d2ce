#include "baton/worker/core/convert.h"

#include <algorithm>

namespace baton::worker {

engine::SequenceSpec spec_of(const protocol::Work& work, const NodeLimits& limits,
                             int block_positions, Instant now) {
  const protocol::Sampling& in = work.sampling;
  engine::SequenceSpec spec;
  spec.prompt = work.prompt_ids;
  spec.generated = work.generated_ids;
  engine::SamplingParams& out = spec.params;
  out.temperature = in.temperature;
  out.top_k = in.top_k;
  out.top_p = in.top_p;
  out.min_p = in.min_p;
  out.repetition_penalty = in.repetition_penalty;
  out.presence_penalty = in.presence_penalty;
  out.frequency_penalty = in.frequency_penalty;
  out.seed = in.seed;
  out.max_tokens = in.max_tokens;
  out.min_tokens = in.min_tokens;
  out.ignore_eos = in.ignore_eos;
  out.stop_token_ids = in.stop_ids;
  for (const auto& [id, bias] : in.logit_bias) out.logit_bias.push_back({id, bias});
  if (in.logprobs >= 0) out.logprobs = in.logprobs;
  spec.logits_digest = in.logits_digest;
  spec.end_ids = limits.end_ids;
  if (limits.prefix_cache && work.prefix_root) {
    spec.prefix.emplace(prefix::Key(*work.prefix_root), block_positions);
  }
  spec.arrival = now;
  spec.deadline = now + std::chrono::milliseconds(work.deadline_ms);
  return spec;
}

std::vector<handoff::LocalBlocks> local_blocks(const kvcache::SequenceBlocks& blocks,
                                               const kvcache::BlockPools& pools) {
  const auto block_units = static_cast<std::uint32_t>(pools.config().block_positions /
                                                      static_cast<int>(handoff::unit_positions));
  std::vector<handoff::LocalBlocks> out;
  for (int group = 0; group < pools.groups(); ++group) {
    const kvcache::BlockTable& table = blocks.group(group);
    handoff::LocalBlocks& local = out.emplace_back();
    local.block_units = block_units;
    local.first_block = static_cast<std::uint32_t>(table.first_held());
    local.blocks.assign(table.blocks().begin() + static_cast<std::ptrdiff_t>(table.first_held()),
                        table.blocks().end());
  }
  return out;
}

std::vector<std::int64_t> first_needed(std::int64_t length, const kvcache::BlockPools& pools) {
  std::vector<std::int64_t> out;
  for (const kvcache::PoolGroup& group : pools.config().groups) {
    out.push_back(handoff::first_needed_unit(group.window, length) * handoff::unit_positions);
  }
  return out;
}

protocol::Grant grant_of(std::uint64_t id, std::int64_t length,
                         const kvcache::SequenceBlocks& blocks, const kvcache::BlockPools& pools,
                         const std::vector<std::int64_t>& held_to) {
  const auto block_units = static_cast<std::uint32_t>(pools.config().block_positions /
                                                      static_cast<int>(handoff::unit_positions));
  protocol::Grant grant{id, length, {}};
  for (int group = 0; group < pools.groups(); ++group) {
    const std::uint32_t first = handoff::first_needed_unit(
        pools.config().groups[static_cast<std::size_t>(group)].window, length);
    const std::uint32_t begin = first / block_units;
    const std::uint32_t end = (handoff::end_unit(length) + block_units - 1) / block_units;
    protocol::GrantGroup& to = grant.groups.emplace_back();
    to.group = static_cast<std::uint32_t>(group);
    to.block_units = block_units;
    to.first_unit = first;
    to.held_units = static_cast<std::uint32_t>(held_to[static_cast<std::size_t>(group)] /
                                               handoff::unit_positions) -
                    first;
    for (const kvcache::BlockRun& run : kvcache::runs_of(blocks.group(group), begin, end - begin)) {
      to.slots.push_back({static_cast<std::uint32_t>(run.first),
                          static_cast<std::uint32_t>(run.count), run.generation});
    }
  }
  return grant;
}

protocol::Tokens::Logprob logprob_of(const engine::Logprobs& logprobs) {
  protocol::Tokens::Logprob out;
  out.chosen = logprobs.chosen.logprob;
  for (const engine::TokenLogprob& top : logprobs.top) out.top.emplace_back(top.id, top.logprob);
  return out;
}

void Pins::add(const kvcache::SequenceBlocks& blocks, std::int64_t length,
               kvcache::BlockPools& pools, kvcache::HolderKind kind) {
  const std::vector<std::int64_t> needed = first_needed(length, pools);
  for (int group = 0; group < pools.groups(); ++group) {
    const kvcache::BlockTable& table = blocks.group(group);
    const auto first = static_cast<std::size_t>(needed[static_cast<std::size_t>(group)] /
                                                pools.config().block_positions);
    for (std::size_t i = std::max(table.first_held(), first); i < table.size(); ++i) {
      const std::pair<int, kvcache::BlockRef> entry{group, table.ref(i)};
      if (std::find(refs_.begin(), refs_.end(), entry) != refs_.end()) continue;
      pools.hold(group, entry.second, kind);
      refs_.push_back(entry);
    }
  }
}

void Pins::release(kvcache::BlockPools& pools, kvcache::HolderKind kind) {
  for (const auto& [group, ref] : refs_) pools.unhold(group, ref, kind);
  refs_.clear();
}

}  // namespace baton::worker
