// Chooses a token from a row of logits. Deterministic to the bit: the same logits, parameters,
// ids, seed, choice and index give the same token on every machine, thread and attempt.
//
// Order of candidates: greater logit first, lower id on ties. With top_k, top_p or min_p the draw
// walks the candidates that are left in this order; without, it walks the vocabulary by id.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "baton/base/ids.h"
#include "baton/base/result.h"
#include "baton/engine/core/sequence.h"
#include "baton/engine/core/step_events.h"

namespace baton::engine {

/// Bumped when any sampled token can change; part of the fingerprint.
inline constexpr std::uint32_t sampler_revision = 1;

struct Sampled {
  TokenId id = 0;
  std::optional<Logprobs> logprobs;

  friend bool operator==(const Sampled&, const Sampled&) = default;
};

/// Holds scratch memory of a vocabulary's size; one per engine thread.
class Sampler {
 public:
  /// The token after `sequence`'s ids. Reason::internal when a logit is NaN or none is finite: such
  /// a row has no right answer.
  Result<Sampled> sample(std::span<const float> logits, const Sequence& sequence);

 private:
  std::span<const float> adjusted(std::span<const float> logits, const Sequence& sequence);
  TokenId draw_from_vocabulary(std::span<const float> logits, float max, float temperature,
                               double uniform);
  TokenId draw_from_candidates(std::span<const float> logits, float max,
                               const SamplingParams& params, double uniform);
  void take_top_k(std::span<const float> logits, std::size_t k);
  void take_at_least(std::span<const float> logits, float least);
  /// Number of leading candidates that top_p of `total` and min_p leave; nothing when more
  /// candidates than are there may be wanted.
  std::optional<std::size_t> cut(float max, const SamplingParams& params, double total,
                                 bool complete);
  Logprobs logprobs_of(std::span<const float> logits, TokenId chosen, std::int32_t count);

  std::vector<float> adjusted_;
  std::vector<float> weights_;
  std::vector<std::uint64_t> candidates_;  // sortable: see sampler.cc
  std::vector<std::uint64_t> sort_scratch_;
};

}  // namespace baton::engine
