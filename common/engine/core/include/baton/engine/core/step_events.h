// What a step brought forth. Values, so that node cores can take them without the engine.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "baton/base/ids.h"
#include "baton/base/result.h"
#include "baton/base/time.h"
#include "baton/engine/core/sequence.h"
#include "baton/engine/core/step.h"

namespace baton::engine {

struct TokenLogprob {
  TokenId id = 0;
  float logprob = 0;

  friend bool operator==(const TokenLogprob&, const TokenLogprob&) = default;
};

/// Log-probabilities by the softmax of the raw logits (before any penalty or temperature).
struct Logprobs {
  TokenLogprob chosen;
  std::vector<TokenLogprob> top;  ///< SamplingParams::logprobs many, likeliest first

  friend bool operator==(const Logprobs&, const Logprobs&) = default;
};

struct TokenEvent {
  SequenceId sequence;
  std::int64_t index = 0;  ///< among the generated ids
  TokenId id = 0;
  std::optional<Finish> finish;
  std::optional<Digest128> logits_digest;  ///< XXH3-128 of the raw row's bytes, when asked for
  std::optional<Logprobs> logprobs;
};

struct SequenceFailure {
  SequenceId sequence;
  Error error;
};

struct StepEvents {
  std::vector<TokenEvent> tokens;       ///< decode rows, then prefills that ended, in plan order
  std::vector<PrefillRows> chunks;      ///< prefill rows that were computed
  std::vector<SequenceId> cancelled;    ///< left the step; no longer in the table
  std::vector<SequenceFailure> failed;  ///< their logits are unusable; still in the table
  StepShape shape;                      ///< as planned; for RateModel::observe
  Duration took{};
};

}  // namespace baton::engine
