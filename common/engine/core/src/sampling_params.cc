#include "baton/engine/core/sampling_params.h"

#include <cmath>
#include <string>

namespace baton::engine {
namespace {

Result<void> in_range(const char* name, float value, float low, float high) {
  // Written so that NaN is out of range.
  if (value >= low && value <= high) return ok();
  return Error(Reason::invalid_request, std::string(name) + " is " + std::to_string(value) +
                                            ", must be " + std::to_string(low) + " to " +
                                            std::to_string(high));
}

Error invalid(const std::string& message) { return {Reason::invalid_request, message}; }

Result<void> validate_lengths(const SamplingParams& params) {
  if (params.max_tokens && *params.max_tokens < 1) return invalid("max_tokens must be at least 1");
  if (params.min_tokens < 0) return invalid("min_tokens must not be negative");
  if (params.max_tokens && params.min_tokens > *params.max_tokens) {
    return invalid("min_tokens must not exceed max_tokens");
  }
  return ok();
}

Result<void> validate_ids(const SamplingParams& params, std::int32_t vocabulary) {
  const auto known = [&](TokenId id) { return id >= 0 && id < vocabulary; };
  if (params.stop_token_ids.size() > max_stop_token_ids) return invalid("too many stop_token_ids");
  for (const TokenId id : params.stop_token_ids) {
    if (!known(id)) return invalid("stop_token_ids: " + std::to_string(id) + " is no token");
  }
  if (params.logit_bias.size() > max_logit_biases) return invalid("too many entries in logit_bias");
  for (const LogitBias& entry : params.logit_bias) {
    if (!known(entry.id))
      return invalid("logit_bias: " + std::to_string(entry.id) + " is no token");
    BATON_TRY(in_range("logit_bias", entry.bias, -100, 100));
  }
  return ok();
}

}  // namespace

Result<void> validate(const SamplingParams& params, std::int32_t vocabulary) {
  // Far above what is useful, far below what overflows.
  constexpr float large = 1e6f;
  BATON_TRY(in_range("temperature", params.temperature, 0, 100));
  if (params.top_k < 0) return invalid("top_k must not be negative");
  BATON_TRY(in_range("top_p", params.top_p, 0, 1));
  if (params.top_p == 0) return invalid("top_p must be greater than 0");
  BATON_TRY(in_range("min_p", params.min_p, 0, 1));
  BATON_TRY(in_range("repetition_penalty", params.repetition_penalty, 1 / large, large));
  BATON_TRY(in_range("presence_penalty", params.presence_penalty, -2, 2));
  BATON_TRY(in_range("frequency_penalty", params.frequency_penalty, -2, 2));
  if (params.logprobs && (*params.logprobs < 0 || *params.logprobs > max_logprobs)) {
    return invalid("logprobs must be 0 to " + std::to_string(max_logprobs));
  }
  BATON_TRY(validate_lengths(params));
  return validate_ids(params, vocabulary);
}

}  // namespace baton::engine
