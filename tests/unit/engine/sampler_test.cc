#include "baton/engine/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <random>

#include <gtest/gtest.h>

#include "baton/engine/philox.h"

namespace baton::engine {
namespace {

std::vector<float> random_logits(std::size_t size, std::uint64_t seed, float spread = 3) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0, spread);
  std::vector<float> out(size);
  for (float& x : out) x = normal(random);
  return out;
}

Sequence sequence_of(const SamplingParams& params, std::size_t vocabulary,
                     std::vector<TokenId> prompt = {0}, std::vector<TokenId> generated = {}) {
  SequenceSpec spec;
  spec.prompt = std::move(prompt);
  spec.generated = std::move(generated);
  spec.params = params;
  const ModelLimits limits{.vocabulary = static_cast<std::int32_t>(vocabulary),
                           .context_length = 100'000};
  return Sequence::for_prefill(std::move(spec), limits).value();
}

TokenId sample(std::span<const float> logits, const SamplingParams& params) {
  Sampler sampler;
  return sampler.sample(logits, sequence_of(params, logits.size())).value().id;
}

/// The obvious sampler: sorts everything, sums in double, uses the library's exp.
TokenId naive_sample(std::span<const float> logits, const SamplingParams& params) {
  std::vector<TokenId> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](TokenId a, TokenId b) {
    return logits[static_cast<std::size_t>(a)] > logits[static_cast<std::size_t>(b)];
  });
  if (params.top_k > 0) {
    order.resize(std::min(order.size(), static_cast<std::size_t>(params.top_k)));
  }
  const double max = logits[static_cast<std::size_t>(order[0])];
  std::vector<double> weights;
  for (const TokenId id : order) {
    weights.push_back(std::exp((logits[static_cast<std::size_t>(id)] - max) / params.temperature));
  }
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::size_t count = 0;
  double sum = 0;
  while (count < order.size() && weights[count] >= params.min_p) {
    sum += weights[count++];
    if (params.top_p < 1 && sum >= params.top_p * total) break;
  }
  double rest = uniform_draw(params.seed, 0, 0) * sum;
  for (std::size_t i = 0; i + 1 < count; ++i) {
    rest -= weights[i];
    if (rest < 0) return order[i];
  }
  return order[count - 1];
}

TEST(Sampler, GreedyTakesTheGreatestAndTheLowerIdOnTies) {
  const std::vector<float> logits = {1, 5, 2, 5, -1};
  EXPECT_EQ(sample(logits, {.temperature = 0}), 1);
  EXPECT_EQ(sample(logits, {.temperature = 1, .top_k = 1}), 1);
  const std::vector<float> zeros = {-1, -0.0f, 0.0f};
  EXPECT_EQ(sample(zeros, {.temperature = 0}), 1);
  EXPECT_EQ(sample(zeros, {.temperature = 1, .top_p = 0.01f}), 1) << "both zeros are one logit";
}

TEST(Sampler, FilteredDrawsEqualThoseOfTheObviousSampler) {
  int different = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    // Flat rows of a larger vocabulary have thousands of candidates.
    const bool flat = seed % 3 == 0;
    const auto logits = random_logits(flat ? 4'003 : 997, seed, flat ? 0.1f : 3.0f);
    SamplingParams params{.temperature = 0.3f + 0.01f * static_cast<float>(seed % 120),
                          .seed = seed};
    if (seed % 2 == 0) params.top_k = static_cast<std::int32_t>(1 + seed % 1'200);
    if (seed % 3 != 1) params.top_p = 0.05f + 0.0023f * static_cast<float>(seed);
    if (seed % 5 == 0) params.min_p = 0.001f * static_cast<float>(seed % 300);
    if (params.top_k == 0 && params.top_p == 1 && params.min_p == 0) params.top_p = 0.9f;
    // A cut or a draw on the edge of a rounding may fall to a neighbour.
    different += sample(logits, params) != naive_sample(logits, params) ? 1 : 0;
  }
  EXPECT_LE(different, 1);
}

TEST(Sampler, UnfilteredDrawsFollowTheSoftmax) {
  const std::vector<float> logits = {0, 1, -std::numeric_limits<float>::infinity(), 2, 0.5f};
  std::map<TokenId, int> counts;
  for (std::uint64_t seed = 0; seed < 20'000; ++seed) ++counts[sample(logits, {.seed = seed})];
  const double total = std::exp(0.0) + std::exp(1.0) + std::exp(2.0) + std::exp(0.5);
  EXPECT_NEAR(counts[0] / 20'000.0, std::exp(0.0) / total, 0.01);
  EXPECT_NEAR(counts[1] / 20'000.0, std::exp(1.0) / total, 0.01);
  EXPECT_EQ(counts[2], 0);
  EXPECT_NEAR(counts[3] / 20'000.0, std::exp(2.0) / total, 0.01);
  EXPECT_NEAR(counts[4] / 20'000.0, std::exp(0.5) / total, 0.01);
}

TEST(Sampler, UnfilteredDrawsReachEveryChunkOfALargeVocabulary) {
  const std::vector<float> logits(5'000, 0.0f);
  std::map<TokenId, int> chunks;
  for (std::uint64_t seed = 0; seed < 2'000; ++seed)
    ++chunks[sample(logits, {.seed = seed}) / 1'000];
  ASSERT_EQ(chunks.size(), 5u);
  for (const auto& [chunk, count] : chunks) EXPECT_NEAR(count, 400, 80) << chunk;
}

TEST(Sampler, PenaltiesTouchTheIdsThatTheyAreMeantFor) {
  const std::vector<float> logits = {4, 3.9f, 3.8f, -1};
  Sampler sampler;
  const auto pick = [&](const SamplingParams& params, std::vector<TokenId> prompt,
                        std::vector<TokenId> generated) {
    return sampler.sample(logits, sequence_of(params, 4, std::move(prompt), std::move(generated)))
        .value()
        .id;
  };
  SamplingParams repetition{.temperature = 0, .repetition_penalty = 2};
  EXPECT_EQ(pick(repetition, {0}, {}), 1);
  EXPECT_EQ(pick(repetition, {0}, {1}), 2);
  SamplingParams presence{.temperature = 0, .presence_penalty = 0.15f};
  EXPECT_EQ(pick(presence, {0}, {}), 0) << "prompt ids are not penalised";
  EXPECT_EQ(pick(presence, {3}, {0}), 1);
  SamplingParams frequency{.temperature = 0, .frequency_penalty = 0.06f};
  EXPECT_EQ(pick(frequency, {3}, {0}), 0);
  EXPECT_EQ(pick(frequency, {3}, {0, 0}), 1);
  SamplingParams bias{.temperature = 0, .logit_bias = {{3, 10}}};
  EXPECT_EQ(pick(bias, {0}, {}), 3);
}

TEST(Sampler, RepetitionPenaltyPushesNegativeLogitsDown) {
  const std::vector<float> logits = {-1, -1.5f};
  SamplingParams params{.temperature = 0, .repetition_penalty = 2};
  Sampler sampler;
  EXPECT_EQ(sampler.sample(logits, sequence_of(params, 2, {0})).value().id, 1);
}

TEST(Sampler, EndIdsAreNotSampledBeforeMinTokens) {
  const std::vector<float> logits = {1, 9, 2};
  SequenceSpec spec;
  spec.prompt = {0};
  spec.end_ids = {1};
  spec.params = {.temperature = 0, .min_tokens = 1};
  const ModelLimits limits{.vocabulary = 3, .context_length = 10};
  Sampler sampler;
  EXPECT_EQ(sampler.sample(logits, Sequence::for_prefill(spec, limits).value()).value().id, 2);
  spec.generated = {2};
  EXPECT_EQ(sampler.sample(logits, Sequence::for_prefill(spec, limits).value()).value().id, 1);
}

TEST(Sampler, API42DrawsDependOnSeedChoiceAndIndexOnly) {
  const auto logits = random_logits(500, 1);
  SamplingParams params{.seed = 7};
  Sampler used;
  for (int i = 0; i < 5; ++i) used.sample(random_logits(700, 9), sequence_of({}, 700)).value();
  const TokenId first = used.sample(logits, sequence_of(params, 500)).value().id;
  EXPECT_EQ(Sampler().sample(logits, sequence_of(params, 500)).value().id, first);
  std::map<TokenId, int> by_index;
  for (std::size_t n = 0; n < 20; ++n) {
    const Sequence later = sequence_of(params, 500, {0}, std::vector<TokenId>(n, 1));
    ++by_index[used.sample(logits, later).value().id];
  }
  EXPECT_GT(by_index.size(), 5u);
}

TEST(Sampler, API29TheChosenTokensLogprobEqualsItsEntryInTheTopList) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const auto logits = random_logits(300, seed);
    SamplingParams params{.seed = seed, .logprobs = 5};
    Sampler sampler;
    const Sampled sampled = sampler.sample(logits, sequence_of(params, 300)).value();
    ASSERT_TRUE(sampled.logprobs);
    const Logprobs& logprobs = *sampled.logprobs;
    ASSERT_EQ(logprobs.top.size(), 5u);
    EXPECT_EQ(logprobs.chosen.id, sampled.id);
    EXPECT_LE(logprobs.chosen.logprob, 0);
    bool listed = false;
    for (const TokenLogprob& entry : logprobs.top) {
      if (entry.id != sampled.id) continue;
      listed = true;
      EXPECT_EQ(entry.logprob, logprobs.chosen.logprob);
    }
    if (!listed) {
      EXPECT_LE(logprobs.chosen.logprob, logprobs.top.back().logprob);
    }
    double total = 0;
    for (const float x : logits) total += std::exp(static_cast<double>(x));
    const double expected =
        static_cast<double>(logits[static_cast<std::size_t>(sampled.id)]) - std::log(total);
    EXPECT_NEAR(static_cast<double>(logprobs.chosen.logprob), expected, 1e-5);
  }
}

TEST(Sampler, ARowWithNaNHasNoAnswer) {
  std::vector<float> logits = {1, std::numeric_limits<float>::quiet_NaN(), 2};
  for (const float temperature : {0.0f, 1.0f}) {
    Sampler sampler;
    const auto sampled = sampler.sample(logits, sequence_of({.temperature = temperature}, 3));
    EXPECT_EQ(sampled.error().reason(), Reason::internal);
  }
}

// Bits of the sampler are part of the fingerprint: whoever changes this list bumps
// sampler_revision.
TEST(Sampler, RevisionOneDrawsTheseTokens) {
  ASSERT_EQ(sampler_revision, 1u);
  std::vector<float> logits(3'001);
  for (std::size_t i = 0; i < logits.size(); ++i) {
    logits[i] = static_cast<float>((i * 7'919) % 3'001) * 0.002f - 3;
  }
  std::vector<TokenId> drawn;
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    drawn.push_back(sample(logits, {.temperature = 0.8f, .seed = seed}));
    drawn.push_back(sample(logits, {.temperature = 1.1f, .top_k = 40, .seed = seed}));
    drawn.push_back(sample(logits, {.temperature = 0.5f, .top_p = 0.3f, .seed = seed}));
    drawn.push_back(sample(logits, {.temperature = 0.5f, .min_p = 0.2f, .seed = seed}));
  }
  EXPECT_EQ(drawn, (std::vector<TokenId>{2669, 2846, 1077, 2658, 1271, 2511, 933, 2799, 2453, 108,
                                         778, 1689, 396, 2475, 36, 1459}));
}

}  // namespace
}  // namespace baton::engine
