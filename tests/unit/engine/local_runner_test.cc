#include "baton/engine/local_runner.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "support/engine/fake_model.h"

namespace baton::engine {
namespace {

std::vector<TokenId> prompt_of(std::int64_t length, TokenId first) {
  std::vector<TokenId> out;
  for (std::int64_t i = 0; i < length; ++i)
    out.push_back((first + static_cast<TokenId>(i * 7)) % 101);
  return out;
}

SequenceSpec spec_of(std::int64_t length, std::uint64_t seed) {
  SequenceSpec spec;
  spec.prompt = prompt_of(length, static_cast<TokenId>(seed % 101));
  spec.params.seed = seed;
  spec.params.temperature = seed % 2 == 0 ? 0.0f : 0.9f;
  spec.params.frequency_penalty = seed % 3 == 0 ? 0.5f : 0.0f;
  spec.params.max_tokens = 10 + static_cast<std::int64_t>(seed % 50);
  spec.logits_digest = true;
  return spec;
}

std::unique_ptr<LocalRunner> runner_of(test::FakeModel& model, const LocalOptions& options) {
  return LocalRunner::create(model, options).value();
}

LocalOptions options_of(std::int64_t positions) {
  return {.cache = {.positions = positions, .block_units = 1, .sequences = 4, .chunk_rows = 64},
          .token_budget = 64,
          .chunk_rows = 64,
          .poison_freed = true};
}

bool at_baseline(const LocalRunner& runner) {
  for (int g = 0; g < runner.pools().groups(); ++g) {
    if (runner.pools().usage(g) != 0) return false;
  }
  return true;
}

class LocalRunnerTest : public testing::Test {
 protected:
  /// Alone, whole prompt at once, in a pool that is never short.
  Completion reference(std::int64_t length, std::uint64_t seed) {
    LocalOptions options = options_of(4'000);
    options.token_budget = options.chunk_rows = options.cache.chunk_rows = 4'000;
    options.prefix_cache = false;
    return runner_of(model_, options)->complete(spec_of(length, seed)).value();
  }

  void expect_equal(const Completion& actual, const Completion& expected) {
    EXPECT_EQ(actual.tokens, expected.tokens);
    EXPECT_EQ(actual.logits_digests, expected.logits_digests);
    EXPECT_EQ(actual.finish, expected.finish);
  }

  test::FakeModel model_;
};

TEST_F(LocalRunnerTest, SequentialAndChunkedPrefillEqualTheWholePrompt) {
  for (const std::int64_t length : {1, 2, 15, 16, 17, 31, 33, 64, 130}) {
    const auto seed = static_cast<std::uint64_t>(length);
    const Completion expected = reference(length, seed);
    EXPECT_EQ(expected.logits_digests.size(), expected.tokens.size());
    for (const std::int64_t chunk : {std::int64_t{1}, std::int64_t{7}, std::int64_t{16}}) {
      LocalOptions options = options_of(1'000);
      options.chunk_rows = chunk;
      expect_equal(runner_of(model_, options)->complete(spec_of(length, seed)).value(), expected);
    }
  }
}

TEST_F(LocalRunnerTest, PreemptionOnAPoolOfHalfTheDemandChangesNothing) {
  const auto runner = runner_of(model_, options_of(300));
  std::vector<SequenceId> ids;
  std::vector<std::pair<std::int64_t, std::uint64_t>> requests;
  for (std::uint64_t seed = 140; seed < 150; ++seed) {
    requests.emplace_back(5 + static_cast<std::int64_t>(seed * 13 % 60), seed);
    ids.push_back(runner->submit(spec_of(requests.back().first, seed)).value());
    runner->step().value();
  }
  while (runner->step().value()) {
  }
  int preemptions = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const Completion completion = runner->take(ids[i])->value();
    expect_equal(completion, reference(requests[i].first, requests[i].second));
    preemptions += completion.preemptions;
  }
  EXPECT_GT(preemptions, 0);
  EXPECT_TRUE(at_baseline(*runner));
}

TEST_F(LocalRunnerTest, AResumedSequenceContinuesWithTheSameTokens) {
  const Completion expected = reference(20, 33);
  for (const std::size_t sent : {std::size_t{1}, std::size_t{5}, expected.tokens.size() - 1}) {
    SequenceSpec spec = spec_of(20, 33);
    spec.generated.assign(expected.tokens.begin(),
                          expected.tokens.begin() + static_cast<std::ptrdiff_t>(sent));
    const Completion rest = runner_of(model_, options_of(1'000))->complete(std::move(spec)).value();
    const auto from = static_cast<std::ptrdiff_t>(sent);
    EXPECT_EQ(rest.tokens,
              std::vector<TokenId>(expected.tokens.begin() + from, expected.tokens.end()));
    EXPECT_EQ(rest.logits_digests, std::vector<Digest128>(expected.logits_digests.begin() + from,
                                                          expected.logits_digests.end()));
  }
}

TEST_F(LocalRunnerTest,
       ASequenceThatOutgrowsTheWholePoolEndsWithATypedErrorAndItsBatchMateFinishes) {
  const auto runner = runner_of(model_, options_of(64));
  SequenceSpec endless = spec_of(40, 2);
  endless.params.max_tokens = 1'000;
  const SequenceId outgrown = runner->submit(std::move(endless)).value();
  const SequenceId mate = runner->submit(spec_of(5, 4)).value();
  while (runner->step().value()) {
  }
  EXPECT_EQ(runner->take(outgrown)->error().reason(), Reason::cannot_grow);
  expect_equal(runner->take(mate)->value(), reference(5, 4));
  EXPECT_TRUE(at_baseline(*runner));
}

TEST_F(LocalRunnerTest, API18APromptThatCanNeverFitIsRefusedAtOnce) {
  const auto runner = runner_of(model_, options_of(64));
  SequenceSpec spec = spec_of(63, 1);
  spec.params.max_tokens = 1;
  EXPECT_TRUE(runner->submit(spec).has_value());
  spec = spec_of(64, 1);
  EXPECT_EQ(runner->submit(spec).error().reason(), Reason::prompt_exceeds_pool);
  spec = spec_of(4'090, 1);
  EXPECT_EQ(runner->submit(spec).error().reason(), Reason::context_length_exceeded);
}

TEST_F(LocalRunnerTest, PFX03OfARepeatedPromptOnlyWhatIsNotCachedIsComputed) {
  const auto runner = runner_of(model_, options_of(1'000));
  for (int time = 0; time < 5; ++time) {
    const std::uint64_t before = runner->counters().prefill_rows;
    const Completion completion = runner->complete(spec_of(160, 4)).value();
    expect_equal(completion, reference(160, 4));
    const std::int64_t expected_hit = time == 0 ? 0 : 144;
    EXPECT_EQ(completion.cached_tokens, expected_hit);
    EXPECT_EQ(runner->counters().prefill_rows - before,
              static_cast<std::uint64_t>(160 - expected_hit));
  }
  EXPECT_TRUE(at_baseline(*runner));
}

TEST_F(LocalRunnerTest, TheNextTurnOfAConversationStartsBehindTheAnswer) {
  const auto runner = runner_of(model_, options_of(1'000));
  const Completion first = runner->complete(spec_of(40, 51)).value();
  SequenceSpec turn = spec_of(40, 51);
  turn.prompt.insert(turn.prompt.end(), first.tokens.begin(), first.tokens.end());
  turn.prompt.push_back(17);
  const std::int64_t length = std::ssize(turn.prompt);
  LocalOptions without = options_of(1'000);
  without.prefix_cache = false;
  const Completion expected = runner_of(model_, without)->complete(turn).value();
  const Completion second = runner->complete(turn).value();
  expect_equal(second, expected);
  // The last id of the answer was never an input.
  EXPECT_EQ(second.cached_tokens, (length - 2) / 16 * 16);
}

TEST_F(LocalRunnerTest, SwitchedOffThePrefixCacheKeepsNothing) {
  LocalOptions options = options_of(1'000);
  options.prefix_cache = false;
  const auto runner = runner_of(model_, options);
  runner->complete(spec_of(160, 4)).value();
  EXPECT_EQ(runner->complete(spec_of(160, 4)).value().cached_tokens, 0);
  for (int g = 0; g < runner->pools().groups(); ++g) EXPECT_EQ(runner->pools().counts(g).cached, 0);
}

TEST_F(LocalRunnerTest, AnOutcomeIsTakenOnceAndTokensAreReportedInOrder) {
  const auto runner = runner_of(model_, options_of(640));
  const SequenceId id = runner->submit(spec_of(20, 8)).value();
  EXPECT_FALSE(runner->take(id).has_value());
  std::vector<TokenId> seen;
  while (runner
             ->step([&](const TokenEvent& event) {
               EXPECT_EQ(event.index, static_cast<std::int64_t>(seen.size()));
               seen.push_back(event.id);
             })
             .value()) {
  }
  const auto outcome = runner->take(id);
  ASSERT_TRUE(outcome.has_value());
  EXPECT_EQ(outcome->value().tokens, seen);
  EXPECT_GT(outcome->value().times.prefill, Duration::zero());
  EXPECT_GT(outcome->value().times.decode, Duration::zero());
  EXPECT_FALSE(runner->take(id).has_value());
}

/// Its steps fail while `fails` is set.
class FailingModel : public test::FakeModel {
 public:
  Result<models::StepOutput> forward(std::span<const models::SequenceRows> batch,
                                     kvcache::Arena& arena,
                                     models::StepObserver* observer) override {
    if (fails) return Error(Reason::internal, "broken");
    return FakeModel::forward(batch, arena, observer);
  }

  bool fails = false;
};

TEST_F(LocalRunnerTest, ARequestWhoseStepFailedLeavesNothingBehind) {
  FailingModel model;
  const auto runner = runner_of(model, options_of(640));
  model.fails = true;
  EXPECT_EQ(runner->complete(spec_of(20, 8)).error().reason(), Reason::internal);
  EXPECT_TRUE(at_baseline(*runner));
  EXPECT_FALSE(runner->step().value()) << "nothing is unfinished";
  model.fails = false;
  expect_equal(runner->complete(spec_of(20, 8)).value(), reference(20, 8));
}

TEST_F(LocalRunnerTest, ADroppedRequestIsForgottenWhateverBecameOfIt) {
  const auto runner = runner_of(model_, options_of(640));
  const SequenceId running = runner->submit(spec_of(20, 8)).value();
  runner->step().value();
  runner->drop(running);
  EXPECT_TRUE(at_baseline(*runner));
  EXPECT_FALSE(runner->take(running).has_value());
  const SequenceId ended = runner->submit(spec_of(20, 8)).value();
  while (runner->step().value()) {
  }
  runner->drop(ended);
  runner->drop(ended);
  EXPECT_FALSE(runner->take(ended).has_value());
}

TEST_F(LocalRunnerTest, ACacheOfNoPositionsIsRefused) {
  EXPECT_EQ(LocalRunner::create(model_, options_of(0)).error().reason(), Reason::bad_config);
}

}  // namespace
}  // namespace baton::engine
