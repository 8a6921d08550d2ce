// One sequence: its ids, how much of it is cached, its blocks, its phase. The phase is decided when
// the sequence is made and by what was computed, never by a flag that somebody forgets to set.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "baton/base/ids.h"
#include "baton/base/result.h"
#include "baton/base/strong.h"
#include "baton/base/time.h"
#include "baton/engine/core/sampling_params.h"
#include "baton/kvcache/core/block_pools.h"
#include "baton/prefix/chain.h"

namespace baton::engine {

/// Names a sequence of this process; ascending in the order of admission (the youngest is the
/// greatest).
using SequenceId = Strong<std::uint64_t, struct SequenceIdTag>;

struct ModelLimits {
  std::int32_t vocabulary = 0;
  std::int64_t context_length = 0;
};

struct SequenceSpec {
  std::vector<TokenId> prompt;     ///< at least one id
  std::vector<TokenId> generated;  ///< sent by an earlier attempt, or token 0 of a handoff
  SamplingParams params;
  std::vector<TokenId> end_ids;  ///< of the model (EOS and its kin)
  bool logits_digest = false;    ///< events carry the digest of every sampled logits row
  std::uint32_t choice = 0;
  Instant arrival{};
  Instant deadline = Instant::max();
  /// Of the request's root, in the block size of the pools; none: takes no cached prefix and leaves
  /// none behind.
  std::optional<prefix::Chain> prefix{};
};

/// A generated end id is `stop` even when it is the last one that max_tokens allows.
enum class Finish : std::uint8_t { stop, length };

/// prefill: cached() < length() and the last row is still to be computed and sampled.
/// decode: cached() == length() - 1; the last generated id is the next step's only input row.
enum class Phase : std::uint8_t { prefill, decode, finished };

/// How often an id was seen; what the penalties are made from.
struct SeenToken {
  TokenId id = 0;
  std::int32_t generated = 0;  ///< occurrences among the generated ids
};

class Sequence {
 public:
  /// Starts (or, with generated ids, resumes) by prefilling prompt and generated ids. Refuses, with
  /// Reason::invalid_request or context_length_exceeded, ids outside the vocabulary, parameters out
  /// of range, prompt + max_tokens beyond the context (API-22) and a sequence that has ended.
  static Result<Sequence> for_prefill(SequenceSpec spec, const ModelLimits& limits);

  /// Continues at position `cached`, whose cache is in `blocks` (taken only on success). Refused
  /// with Reason::length_mismatch unless cached == prompt + generated - 1, there is a generated id
  /// (the decode step's input) and the blocks cover what is cached. `whole_from`: per group the
  /// first position that is cached; empty: 0 in each.
  static Result<Sequence> for_decode(SequenceSpec spec, const ModelLimits& limits,
                                     std::int64_t cached, kvcache::SequenceBlocks& blocks,
                                     const kvcache::BlockPools& pools,
                                     std::vector<std::int64_t> whole_from = {});

  Phase phase() const { return phase_; }
  /// Positions whose keys and values are cached.
  std::int64_t cached() const { return cached_; }
  /// Prompt and generated ids.
  std::int64_t length() const { return static_cast<std::int64_t>(ids_.size()); }
  std::int64_t prompt_length() const { return prompt_length_; }
  std::span<const TokenId> ids() const { return ids_; }
  std::span<const TokenId> prompt() const {
    return ids().first(static_cast<std::size_t>(prompt_length_));
  }
  std::span<const TokenId> generated() const {
    return ids().subspan(static_cast<std::size_t>(prompt_length_));
  }
  std::int64_t generated_count() const { return length() - prompt_length_; }
  std::int64_t max_tokens() const { return max_tokens_; }
  std::optional<Finish> finish() const { return finish_; }
  const SamplingParams& params() const { return params_; }
  std::uint32_t choice() const { return choice_; }
  bool logits_digest() const { return logits_digest_; }
  Instant arrival() const { return arrival_; }
  Instant deadline() const { return deadline_; }
  const kvcache::SequenceBlocks& blocks() const { return blocks_; }
  /// Ascending by id; empty unless a penalty is on.
  std::span<const SeenToken> seen() const { return seen_; }
  /// Ids that may not be generated now (min_tokens is not reached), ascending.
  std::span<const TokenId> masked_ids() const;
  /// Number of the last step that had rows of it; 0 before the first.
  std::uint64_t last_step() const { return last_step_; }
  /// Does it take cached prefixes and leave its own?
  bool uses_prefix_cache() const { return chain_.has_value(); }
  /// Names its whole blocks; empty without a prefix chain.
  std::span<const prefix::Key> prefix_keys() const;
  /// Positions that it took from the prefix cache when it was first started.
  std::int64_t prefix_hit() const { return prefix_hit_; }

  /// Positions that it could take from the prefix cache now: 0 once it holds blocks, and never all
  /// of its length, whose last row must be computed.
  std::int64_t cached_prefix(const kvcache::BlockPools& pools) const;
  /// Starts with the cached prefix of `length` (<= cached_prefix()) positions.
  void take_prefix(kvcache::BlockPools& pools, std::int64_t length);

  /// Makes room for [0, end) (see kvcache::Coverage); a prefill reserves length(). False, and
  /// nothing taken, when a pool is short.
  [[nodiscard]] bool reserve(kvcache::BlockPools& pools, std::int64_t end);
  kvcache::Coverage coverage(std::int64_t end) const;

  /// `rows` more positions are cached, in every layer. Blocks that are whole now are indexed; drops
  /// what a window has left behind.
  void advance(std::int64_t rows, std::uint64_t step, kvcache::BlockPools& pools);
  /// Indexes the whole blocks that it was made with (for_decode).
  void seal(kvcache::BlockPools& pools) const { seal_from(0, pools); }
  /// The id sampled from the last row; requires cached() == length().
  std::optional<Finish> append(TokenId id);
  /// Drops the cache; the sequence will be prefilled again from its ids.
  void preempt(kvcache::BlockPools& pools);
  /// Frees everything it holds (COR-15: the only function that does so for an ended sequence).
  void release(kvcache::BlockPools& pools) { pools.release(blocks_); }

 private:
  Sequence() = default;
  static Result<Sequence> make(SequenceSpec spec, const ModelLimits& limits);
  void count_seen(TokenId id, bool is_generated);
  void seal_from(std::int64_t begin, kvcache::BlockPools& pools) const;

  std::vector<TokenId> ids_;
  std::int64_t prompt_length_ = 0;
  SamplingParams params_;
  std::vector<TokenId> stop_ids_;  ///< ascending
  std::int64_t max_tokens_ = 0;
  std::uint32_t choice_ = 0;
  bool logits_digest_ = false;
  Instant arrival_{};
  Instant deadline_{};
  Phase phase_ = Phase::prefill;
  std::int64_t cached_ = 0;
  std::optional<Finish> finish_;
  std::uint64_t last_step_ = 0;
  std::vector<SeenToken> seen_;
  kvcache::SequenceBlocks blocks_;
  std::optional<prefix::Chain> chain_;
  std::vector<std::int64_t> whole_from_;
  std::int64_t prefix_hit_ = 0;
};

/// The sequences of a worker, in order of admission.
class SequenceTable {
 public:
  SequenceId add(Sequence sequence);
  Sequence* find(SequenceId id);
  const Sequence* find(SequenceId id) const;
  /// Frees what it holds and forgets it. Unknown ids are fine: cancels repeat.
  void remove(SequenceId id, kvcache::BlockPools& pools);

  const std::map<SequenceId, Sequence>& all() const { return sequences_; }
  std::uint64_t next_step() { return ++steps_; }
  /// Whether the last step that was prepared had rows that decode.
  bool decoded_last() const { return decoded_last_; }
  void prepared_step(bool decodes) { decoded_last_ = decodes; }

 private:
  std::map<SequenceId, Sequence> sequences_;
  std::uint64_t last_id_ = 0;
  std::uint64_t steps_ = 0;
  bool decoded_last_ = false;
};

}  // namespace baton::engine
