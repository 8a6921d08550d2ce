#include "baton/engine/core/sequence.h"

#include <algorithm>
#include <string>

#include "baton/base/check.h"

namespace baton::engine {
namespace {

Result<void> check_ids(std::span<const TokenId> ids, std::int32_t vocabulary) {
  for (const TokenId id : ids) {
    if (id < 0 || id >= vocabulary) {
      return Error(Reason::invalid_request, "token id " + std::to_string(id) +
                                                " is outside the vocabulary of " +
                                                std::to_string(vocabulary));
    }
  }
  return ok();
}

Result<std::int64_t> token_limit(const SequenceSpec& spec, const ModelLimits& limits) {
  const auto prompt = static_cast<std::int64_t>(spec.prompt.size());
  const std::int64_t left = limits.context_length - prompt;
  const std::int64_t wanted = spec.params.max_tokens.value_or(std::max<std::int64_t>(left, 1));
  if (wanted > left) {
    return Error(Reason::context_length_exceeded,
                 "This model's maximum context length is " + std::to_string(limits.context_length) +
                     " tokens; the prompt has " + std::to_string(prompt) + " and " +
                     std::to_string(wanted) + " were asked for");
  }
  return wanted;
}

/// Does a query at `cached` find a block for every position that it sees?
bool covers(const kvcache::SequenceBlocks& blocks, std::int64_t cached,
            const kvcache::BlockPools& pools) {
  if (blocks.empty()) return false;
  for (int g = 0; g < pools.groups(); ++g) {
    const kvcache::BlockTable& table = blocks.group(g);
    const auto held_from =
        static_cast<std::int64_t>(table.first_held()) * pools.config().block_positions;
    if (static_cast<std::int64_t>(table.size()) < pools.blocks_for(0, cached)) return false;
    if (held_from > pools.first_visible(g, cached)) return false;
  }
  return true;
}

bool counts_seen(const SamplingParams& params) {
  return params.repetition_penalty != 1 || params.presence_penalty != 0 ||
         params.frequency_penalty != 0;
}

}  // namespace

Result<Sequence> Sequence::make(SequenceSpec spec, const ModelLimits& limits) {
  if (spec.prompt.empty()) return Error(Reason::invalid_request, "the prompt is empty");
  BATON_TRY(validate(spec.params, limits.vocabulary));
  BATON_ASSIGN(const std::int64_t max_tokens, token_limit(spec, limits));
  BATON_TRY(check_ids(spec.prompt, limits.vocabulary));
  BATON_TRY(check_ids(spec.generated, limits.vocabulary));
  if (static_cast<std::int64_t>(spec.generated.size()) >= max_tokens) {
    return Error(Reason::invalid_request, "all of max_tokens have been generated already");
  }
  Sequence sequence;
  sequence.prompt_length_ = static_cast<std::int64_t>(spec.prompt.size());
  sequence.max_tokens_ = max_tokens;
  sequence.choice_ = spec.choice;
  sequence.logits_digest_ = spec.logits_digest;
  sequence.arrival_ = spec.arrival;
  sequence.deadline_ = spec.deadline;
  sequence.stop_ids_ = spec.params.stop_token_ids;
  if (!spec.params.ignore_eos) {
    sequence.stop_ids_.insert(sequence.stop_ids_.end(), spec.end_ids.begin(), spec.end_ids.end());
  }
  std::sort(sequence.stop_ids_.begin(), sequence.stop_ids_.end());
  sequence.params_ = std::move(spec.params);
  sequence.ids_ = std::move(spec.prompt);
  if (counts_seen(sequence.params_)) {
    for (const TokenId id : sequence.ids_) sequence.count_seen(id, false);
    for (const TokenId id : spec.generated) sequence.count_seen(id, true);
  }
  sequence.ids_.insert(sequence.ids_.end(), spec.generated.begin(), spec.generated.end());
  sequence.chain_ = std::move(spec.prefix);
  if (sequence.chain_) sequence.chain_->extend(sequence.ids_);
  return sequence;
}

Result<Sequence> Sequence::for_prefill(SequenceSpec spec, const ModelLimits& limits) {
  return make(std::move(spec), limits);
}

Result<Sequence> Sequence::for_decode(SequenceSpec spec, const ModelLimits& limits,
                                      std::int64_t cached, kvcache::SequenceBlocks& blocks,
                                      const kvcache::BlockPools& pools,
                                      std::vector<std::int64_t> whole_from) {
  const std::int64_t length = static_cast<std::int64_t>(spec.prompt.size() + spec.generated.size());
  if (spec.generated.empty() || cached != length - 1) {
    return Error(Reason::length_mismatch, "decode continues " + std::to_string(spec.prompt.size()) +
                                              " + " + std::to_string(spec.generated.size()) +
                                              " tokens with a cache of " + std::to_string(cached) +
                                              " positions");
  }
  if (!covers(blocks, cached, pools)) {
    return Error(Reason::length_mismatch, "the blocks do not cover the cached length");
  }
  BATON_ASSIGN(Sequence sequence, make(std::move(spec), limits));
  sequence.phase_ = Phase::decode;
  sequence.cached_ = cached;
  sequence.blocks_ = std::move(blocks);
  sequence.whole_from_ = std::move(whole_from);
  return sequence;
}

std::span<const TokenId> Sequence::masked_ids() const {
  if (generated_count() >= params_.min_tokens) return {};
  return stop_ids_;
}

kvcache::Coverage Sequence::coverage(std::int64_t end) const {
  return {.next = cached_, .end = end, .reserve_end = phase_ == Phase::prefill ? length() : 0};
}

std::span<const prefix::Key> Sequence::prefix_keys() const {
  return chain_ ? chain_->keys() : std::span<const prefix::Key>();
}

std::int64_t Sequence::cached_prefix(const kvcache::BlockPools& pools) const {
  if (phase_ != Phase::prefill || cached_ != 0 || !blocks_.empty()) return 0;
  return pools.cached_prefix(prefix_keys(), length() - 1);
}

void Sequence::take_prefix(kvcache::BlockPools& pools, std::int64_t length) {
  BATON_CHECK(phase_ == Phase::prefill && cached_ == 0 && length < this->length());
  std::vector<std::int64_t> first;
  for (int g = 0; g < pools.groups(); ++g) first.push_back(pools.first_visible(g, length));
  for (const std::int64_t held : pools.take_indexed(blocks_, prefix_keys(), first, length)) {
    BATON_CHECK(held == length);
  }
  cached_ = length;
  if (last_step_ == 0) prefix_hit_ = length;
}

void Sequence::seal_from(std::int64_t begin, kvcache::BlockPools& pools) const {
  const std::int64_t size = pools.config().block_positions;
  if (chain_ && begin / size < cached_ / size) {
    pools.seal(blocks_, chain_->keys(), begin, cached_, whole_from_);
  }
}

bool Sequence::reserve(kvcache::BlockPools& pools, std::int64_t end) {
  return pools.extend(blocks_, coverage(end));
}

void Sequence::advance(std::int64_t rows, std::uint64_t step, kvcache::BlockPools& pools) {
  BATON_CHECK(rows > 0 && cached_ + rows <= length());
  BATON_CHECK(phase_ == Phase::prefill || (phase_ == Phase::decode && rows == 1));
  cached_ += rows;
  last_step_ = step;
  seal_from(cached_ - rows, pools);
  pools.drop_invisible(blocks_, cached_);
}

std::optional<Finish> Sequence::append(TokenId id) {
  BATON_CHECK(phase_ != Phase::finished && cached_ == length());
  ids_.push_back(id);
  if (chain_) chain_->extend(ids_);
  if (counts_seen(params_)) count_seen(id, true);
  phase_ = Phase::decode;
  if (std::binary_search(stop_ids_.begin(), stop_ids_.end(), id)) {
    finish_ = Finish::stop;
  } else if (generated_count() >= max_tokens_) {
    finish_ = Finish::length;
  }
  if (finish_) phase_ = Phase::finished;
  return finish_;
}

void Sequence::preempt(kvcache::BlockPools& pools) {
  BATON_CHECK(phase_ != Phase::finished);
  release(pools);
  cached_ = 0;
  whole_from_.clear();
  phase_ = Phase::prefill;
}

void Sequence::count_seen(TokenId id, bool is_generated) {
  const auto at =
      std::lower_bound(seen_.begin(), seen_.end(), id,
                       [](const SeenToken& seen, TokenId key) { return seen.id < key; });
  const auto entry = at != seen_.end() && at->id == id ? at : seen_.insert(at, {id, 0});
  if (is_generated) ++entry->generated;
}

SequenceId SequenceTable::add(Sequence sequence) {
  const SequenceId id(++last_id_);
  sequences_.emplace(id, std::move(sequence));
  return id;
}

Sequence* SequenceTable::find(SequenceId id) {
  const auto at = sequences_.find(id);
  return at == sequences_.end() ? nullptr : &at->second;
}

const Sequence* SequenceTable::find(SequenceId id) const {
  const auto at = sequences_.find(id);
  return at == sequences_.end() ? nullptr : &at->second;
}

void SequenceTable::remove(SequenceId id, kvcache::BlockPools& pools) {
  const auto at = sequences_.find(id);
  if (at == sequences_.end()) return;
  at->second.release(pools);
  sequences_.erase(at);
}

}  // namespace baton::engine
