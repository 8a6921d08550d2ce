// How tokens are chosen and when a sequence ends. Values as the engine takes them: an API's own
// spellings (null, -1 for "off", …) are resolved before.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "baton/base/ids.h"
#include "baton/base/result.h"

namespace baton::engine {

struct LogitBias {
  TokenId id = 0;
  float bias = 0;

  friend bool operator==(const LogitBias&, const LogitBias&) = default;
};

/// Applied in this order: logit_bias, end ids masked while min_tokens is not reached, repetition
/// penalty (prompt and generated ids), frequency and presence penalties (generated ids),
/// temperature, top_k, top_p (of what top_k left), min_p (relative to the likeliest).
struct SamplingParams {
  float temperature = 1;   ///< below greedy_temperature: the greatest logit, lowest id on ties
  std::int32_t top_k = 0;  ///< 0: off
  float top_p = 1;         ///< 1: off
  float min_p = 0;         ///< 0: off
  float repetition_penalty = 1;  ///< 1: off
  float presence_penalty = 0;
  float frequency_penalty = 0;
  std::uint64_t seed = 0;
  std::optional<std::int64_t> max_tokens{};  ///< none: what the context leaves
  std::int64_t min_tokens = 0;               ///< no end id before so many generated tokens
  bool ignore_eos = false;  ///< end_ids of the model do not end it, stop_token_ids do
  std::vector<TokenId> stop_token_ids{};
  std::vector<LogitBias> logit_bias{};
  std::optional<std::int32_t> logprobs{};  ///< report the chosen id and so many of the likeliest

  friend bool operator==(const SamplingParams&, const SamplingParams&) = default;
};

inline constexpr float greedy_temperature = 1e-5f;
inline constexpr std::int32_t max_logprobs = 20;
inline constexpr std::size_t max_logit_biases = 300;
inline constexpr std::size_t max_stop_token_ids = 64;

/// Reason::invalid_request naming the parameter at fault (R19).
Result<void> validate(const SamplingParams& params, std::int32_t vocabulary);

}  // namespace baton::engine
