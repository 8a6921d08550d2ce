#include "baton/engine/sampler.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <numeric>

#include "baton/base/check.h"
#include "baton/engine/philox.h"
#include "baton/engine/vocabulary.h"

namespace baton::engine {
namespace {

constexpr float minus_infinity = -std::numeric_limits<float>::infinity();

// A candidate as one integer whose ascending order is (logit descending, id ascending).
std::uint64_t candidate_of(float logit, std::size_t id) {
  // -0 and +0 are equal logits and must tie.
  const auto bits = std::bit_cast<std::uint32_t>(logit == 0 ? 0.0f : logit);
  const std::uint32_t ascending = bits >> 31 != 0 ? ~bits : bits | 0x80000000u;
  return static_cast<std::uint64_t>(~ascending) << 32 | static_cast<std::uint32_t>(id);
}

TokenId id_of(std::uint64_t candidate) { return static_cast<TokenId>(candidate & 0xFFFFFFFFu); }

float logit_of(std::uint64_t candidate) {
  const auto ascending = ~static_cast<std::uint32_t>(candidate >> 32);
  return std::bit_cast<float>(ascending >> 31 != 0 ? ascending & 0x7FFFFFFFu : ~ascending);
}

/// Sorts candidates whose ids ascend already: by logit, in three stable passes over 11 bits each.
void sort_candidates(std::vector<std::uint64_t>& candidates, std::vector<std::uint64_t>& scratch) {
  constexpr std::size_t small = 1024;  // below this the passes cost more than they save
  constexpr int digit_bits = 11;
  constexpr std::size_t digits = std::size_t{1} << digit_bits;
  if (candidates.size() < small) {
    std::sort(candidates.begin(), candidates.end());
    return;
  }
  scratch.resize(candidates.size());
  for (int shift = 32; shift < 64; shift += digit_bits) {
    const auto digit = [shift](std::uint64_t candidate) {
      return static_cast<std::size_t>(candidate >> shift) % digits;
    };
    std::array<std::size_t, digits> next{};
    for (const std::uint64_t candidate : candidates) ++next[digit(candidate)];
    std::exclusive_scan(next.begin(), next.end(), next.begin(), std::size_t{0});
    for (const std::uint64_t candidate : candidates) scratch[next[digit(candidate)]++] = candidate;
    candidates.swap(scratch);
  }
}

bool needs_copy(const Sequence& sequence) {
  return !sequence.params().logit_bias.empty() || !sequence.masked_ids().empty() ||
         !sequence.seen().empty();
}

void penalise(std::span<const SeenToken> seen, const SamplingParams& params,
              std::span<float> logits) {
  for (const SeenToken& token : seen) {
    float& logit = logits[static_cast<std::size_t>(token.id)];
    logit = logit > 0 ? logit / params.repetition_penalty : logit * params.repetition_penalty;
    if (token.generated == 0) continue;
    logit -= params.frequency_penalty * static_cast<float>(token.generated);
    logit -= params.presence_penalty;
  }
}

}  // namespace

std::span<const float> Sampler::adjusted(std::span<const float> logits, const Sequence& sequence) {
  if (!needs_copy(sequence)) return logits;
  adjusted_.assign(logits.begin(), logits.end());
  for (const LogitBias& entry : sequence.params().logit_bias) {
    adjusted_[static_cast<std::size_t>(entry.id)] += entry.bias;
  }
  penalise(sequence.seen(), sequence.params(), adjusted_);
  for (const TokenId id : sequence.masked_ids()) {
    adjusted_[static_cast<std::size_t>(id)] = minus_infinity;
  }
  return adjusted_;
}

TokenId Sampler::draw_from_vocabulary(std::span<const float> logits, float max, float temperature,
                                      double uniform) {
  weights_.resize(logits.size());
  weigh(logits, max, temperature, weights_);
  const std::span<const float> weights(weights_);
  double rest = uniform * sum_weights(weights);
  TokenId last = 0;
  for (std::size_t begin = 0; begin < weights.size(); begin += vocabulary_chunk) {
    const auto chunk = weights.subspan(begin, std::min(vocabulary_chunk, weights.size() - begin));
    const double sum = sum_chunk(chunk);
    const bool here = rest < sum;
    if (sum > 0) {
      for (std::size_t i = 0; i < chunk.size(); ++i) {
        if (chunk[i] == 0) continue;
        last = static_cast<TokenId>(begin + i);
        if (!here) continue;
        rest -= static_cast<double>(chunk[i]);
        if (rest < 0) return last;
      }
    }
    // Rounding may leave a trace of `rest` behind the chunk that it fell into: its last id is it.
    if (here) return last;
    rest -= sum;
  }
  return last;
}

void Sampler::take_top_k(std::span<const float> logits, std::size_t k) {
  // A heap whose front is the worst of the best k so far. Ids come in ascending order: a later
  // equal logit is never better.
  candidates_.clear();
  std::size_t i = 0;
  for (; i < std::min(k, logits.size()); ++i) candidates_.push_back(candidate_of(logits[i], i));
  std::make_heap(candidates_.begin(), candidates_.end());
  float worst = logit_of(candidates_.front());
  for (; i < logits.size(); ++i) {
    if (logits[i] <= worst) continue;
    std::pop_heap(candidates_.begin(), candidates_.end());
    candidates_.back() = candidate_of(logits[i], i);
    std::push_heap(candidates_.begin(), candidates_.end());
    worst = logit_of(candidates_.front());
  }
  std::sort_heap(candidates_.begin(), candidates_.end());
}

void Sampler::take_at_least(std::span<const float> logits, float least) {
  candidates_.clear();
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] >= least) candidates_.push_back(candidate_of(logits[i], i));
  }
  sort_candidates(candidates_, sort_scratch_);
}

std::optional<std::size_t> Sampler::cut(float max, const SamplingParams& params, double total,
                                        bool complete) {
  const double wanted = static_cast<double>(params.top_p) * total;
  double sum = 0;
  weights_.clear();
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    const float weight = exp_nonpositive((logit_of(candidates_[i]) - max) / params.temperature);
    if (weight == 0 || weight < params.min_p) return i;
    weights_.push_back(weight);
    sum += static_cast<double>(weight);
    if (params.top_p < 1 && sum >= wanted) return i + 1;
  }
  if (complete) return candidates_.size();
  return std::nullopt;
}

TokenId Sampler::draw_from_candidates(std::span<const float> logits, float max,
                                      const SamplingParams& params, double uniform) {
  std::optional<std::size_t> count;
  if (params.top_k > 0) {
    take_top_k(logits, static_cast<std::size_t>(params.top_k));
    double total = 0;
    for (const std::uint64_t candidate : candidates_) {
      total +=
          static_cast<double>(exp_nonpositive((logit_of(candidate) - max) / params.temperature));
    }
    count = cut(max, params, total, true);
  } else {
    double total = 0;
    if (params.top_p < 1) {
      weights_.resize(logits.size());
      weigh(logits, max, params.temperature, weights_);
      total = sum_weights(weights_);
    }
    // The wanted candidates are mostly few and near the top: sort no more than it takes. Beyond
    // a distance of 88 every weight is 0.
    for (const float distance : {4.0f, 8.0f, 16.0f, 88.0f}) {
      take_at_least(logits, max - distance * params.temperature);
      count = cut(max, params, total, distance == 88.0f || candidates_.size() == logits.size());
      if (count) break;
    }
  }
  BATON_CHECK(count && *count > 0);
  double sum = 0;
  for (std::size_t i = 0; i < *count; ++i) sum += static_cast<double>(weights_[i]);
  double rest = uniform * sum;
  for (std::size_t i = 0; i + 1 < *count; ++i) {
    rest -= static_cast<double>(weights_[i]);
    if (rest < 0) return id_of(candidates_[i]);
  }
  return id_of(candidates_[*count - 1]);
}

Logprobs Sampler::logprobs_of(std::span<const float> logits, TokenId chosen, std::int32_t count) {
  const RowScan scan = scan_row(logits);
  weights_.resize(logits.size());
  weigh(logits, scan.max, 1, weights_);
  const double log_total = natural_log(sum_weights(weights_)) + static_cast<double>(scan.max);
  const auto entry = [&](TokenId id) {
    const double logit = static_cast<double>(logits[static_cast<std::size_t>(id)]);
    return TokenLogprob{id, static_cast<float>(logit - log_total)};
  };
  Logprobs out{.chosen = entry(chosen), .top = {}};
  if (count == 0) return out;
  take_top_k(logits, static_cast<std::size_t>(count));
  for (const std::uint64_t candidate : candidates_) out.top.push_back(entry(id_of(candidate)));
  return out;
}

Result<Sampled> Sampler::sample(std::span<const float> logits, const Sequence& sequence) {
  const SamplingParams& params = sequence.params();
  const std::span<const float> row = adjusted(logits, sequence);
  const RowScan scan = scan_row(row);
  if (!scan.finite) return Error(Reason::internal, "the model computed a row of logits with NaN");
  Sampled out;
  if (params.temperature < greedy_temperature) {
    out.id = scan.argmax;
  } else {
    const double uniform = uniform_draw(params.seed, sequence.choice(),
                                        static_cast<std::uint64_t>(sequence.generated_count()));
    const bool filtered = params.top_k > 0 || params.top_p < 1 || params.min_p > 0;
    out.id = filtered ? draw_from_candidates(row, scan.max, params, uniform)
                      : draw_from_vocabulary(row, scan.max, params.temperature, uniform);
  }
  if (params.logprobs) out.logprobs = logprobs_of(logits, out.id, *params.logprobs);
  return out;
}

}  // namespace baton::engine
