// What a request asks to be computed, as both legs get it.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "baton/base/ids.h"

namespace baton::protocol {

/// Everything that decides which token comes next, given the logits.
struct Sampling {
  float temperature = 1;
  std::int32_t top_k = 0;  ///< 0: off
  float top_p = 1;
  float min_p = 0;
  float repetition_penalty = 1;
  float presence_penalty = 0;
  float frequency_penalty = 0;
  std::uint64_t seed = 0;
  std::int32_t max_tokens = 0;  ///< >= 1; set by the router
  std::int32_t min_tokens = 0;
  bool ignore_eos = false;
  std::vector<TokenId> stop_ids;
  std::vector<std::pair<TokenId, float>> logit_bias;
  std::int32_t logprobs = -1;  ///< -1: none; else this many alternatives beside the chosen token
  bool logits_digest = false;
  friend bool operator==(const Sampling&, const Sampling&) = default;
};

/// What both legs need to compute or to continue a request. After tokens were sent, generated_ids
/// holds them; prefill then covers prompt and generated ids and the next token has first_index.
struct Work {
  std::vector<TokenId> prompt_ids;
  std::vector<TokenId> generated_ids;
  Sampling sampling;
  std::int64_t deadline_ms = 0;  ///< remaining
  /// Of the request's prefix chain (prefix/chain.h); none: no prefix cache for it.
  std::optional<Digest256> prefix_root;
  std::int64_t length() const {
    return static_cast<std::int64_t>(prompt_ids.size() + generated_ids.size());
  }
  friend bool operator==(const Work&, const Work&) = default;
};

}  // namespace baton::protocol
