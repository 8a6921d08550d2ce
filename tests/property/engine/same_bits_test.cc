// P1 at the level of the engine: the tokens and the digest of every sampled logits row are the same
// however a request was run in one process. Every kernel set of this processor is tried on models
// of every shape that is awkward: odd widths, wide heads, one KV head, windows, vocabularies that
// are no multiple of 16.

#include <algorithm>
#include <map>
#include <random>

#include <gtest/gtest.h>

#include "baton/engine/local_runner.h"

#include "support/models/random_model.h"

namespace baton::engine {
namespace {

struct Case {
  const char* name;
  test::RandomModel model;
  tensor::CacheDtype cache = tensor::CacheDtype::bf16;
};

std::vector<Case> cases() {
  using modelfile::GgmlType;
  return {
      {"llama_q8_0_heads_of_64",
       {.type = GgmlType::q8_0,
        .width = 192,
        .heads = 3,
        .kv_heads = 1,
        .head_dim = 64,
        .ffn_width = 96,
        .vocabulary = 331,
        .seed = 1}},
      {"llama_q4_1_heads_of_80",
       {.type = GgmlType::q4_1,
        .width = 160,
        .heads = 2,
        .kv_heads = 2,
        .head_dim = 80,
        .ffn_width = 64,
        .vocabulary = 257,
        .bias = true,
        .seed = 2}},
      {"llama_f32_window", {.width = 96, .window = 20, .seed = 3}},
      {"gemma3_bf16_heads_of_256",
       {.family = "gemma3",
        .type = GgmlType::bf16,
        .layers = 4,
        .width = 64,
        .heads = 1,
        .kv_heads = 1,
        .head_dim = 256,
        .ffn_width = 64,
        .vocabulary = 203,
        .window = 24,
        .tied_output = true,
        .seed = 4}},
      {"llama_q4_1_cache_of_q8_0",
       {.type = GgmlType::q4_1,
        .width = 96,
        .heads = 3,
        .kv_heads = 1,
        .head_dim = 64,
        .window = 40,
        .seed = 5},
       tensor::CacheDtype::q8_0},
  };
}

struct Request {
  std::vector<TokenId> prompt;
  SamplingParams params;
};

std::vector<Request> requests_for(const test::RandomModel& model) {
  std::vector<Request> out;
  const int lengths[] = {1, 3, 15, 16, 17, 33, 63, 65, 90};
  for (std::size_t i = 0; i < std::size(lengths); ++i) {
    Request request;
    request.prompt = test::random_tokens(lengths[i], model.vocabulary, 50 + i);
    request.params.seed = i;
    request.params.temperature = i % 3 == 0 ? 0.0f : 0.8f;
    request.params.top_k = i % 3 == 1 ? 20 : 0;
    request.params.top_p = i % 4 == 1 ? 0.9f : 1.0f;
    request.params.repetition_penalty = i % 2 == 0 ? 1.2f : 1.0f;
    request.params.max_tokens = 24 + static_cast<std::int64_t>(i % 3) * 8;
    out.push_back(std::move(request));
  }
  return out;
}

SequenceSpec spec_of(const Request& request) {
  SequenceSpec spec;
  spec.prompt = request.prompt;
  spec.params = request.params;
  spec.logits_digest = true;
  return spec;
}

struct Parameter {
  std::string set;
  Case model;
};

std::vector<Parameter> parameters() {
  std::vector<Parameter> out;
  for (const std::string_view set : kernels::available_sets()) {
    for (const Case& model : cases()) out.push_back({std::string(set), model});
  }
  return out;
}

void PrintTo(const Parameter& parameter, std::ostream* out) {
  *out << parameter.set << " " << parameter.model.name;
}

class SameBits : public testing::TestWithParam<Parameter> {
 protected:
  struct Machine {
    explicit Machine(const Parameter& parameter, int threads)
        : pool(threads), kernel_set(kernels::make_kernels(parameter.set, pool).value()) {
      const auto file = test::make_random_model(parameter.model.model);
      const auto config = models::config_from(file).value();
      model = models::Model::load(file, config, *kernel_set, {}).value();
    }

    kernels::ThreadPool pool;
    std::unique_ptr<kernels::Kernels> kernel_set;
    std::unique_ptr<models::Model> model;
  };

  static LocalOptions options(std::int64_t positions, std::int64_t chunk_rows) {
    return {.cache = {.positions = positions,
                      .block_units = 1,
                      .dtype = GetParam().model.cache,
                      .sequences = 4,
                      .chunk_rows = 128},
            .token_budget = 128,
            .chunk_rows = chunk_rows,
            .poison_freed = true};
  }

  /// Each request alone, its prompt in one piece.
  std::vector<Completion> reference(models::Model& model, std::span<const Request> requests) {
    std::vector<Completion> out;
    LocalOptions alone = options(512, 512);
    alone.prefix_cache = false;
    const auto runner = LocalRunner::create(model, alone).value();
    for (const Request& request : requests) {
      out.push_back(runner->complete(spec_of(request)).value());
    }
    return out;
  }

  void expect_equal(const Completion& actual, const Completion& expected, const char* how) {
    EXPECT_EQ(actual.tokens, expected.tokens) << how;
    EXPECT_EQ(actual.logits_digests, expected.logits_digests) << how;
  }

  struct BatchFacts {
    int preemptions = 0;
    int hits = 0;
    int evicted = 0;  ///< prompts of which not every whole block was left at the end
  };

  /// Whole blocks of ended sequences stay unless they are evicted.
  static bool is_evicted(const Request& request, const kvcache::BlockPools& pools) {
    const std::int64_t size = pools.config().block_positions;
    const std::int64_t length = std::ssize(request.prompt);
    prefix::Chain chain(prefix::Key(), pools.config().block_positions);
    chain.extend(request.prompt);
    return pools.cached_prefix(chain.keys(), length) < length / size * size;
  }

  /// All requests together, one more with every step.
  BatchFacts expect_batch_equal(models::Model& model, std::span<const Request> requests,
                                std::span<const Completion> expected, const LocalOptions& how_to) {
    const auto runner = LocalRunner::create(model, how_to).value();
    std::vector<SequenceId> ids;
    for (const Request& request : requests) {
      ids.push_back(runner->submit(spec_of(request)).value());
      runner->step().value();
    }
    while (runner->step().value()) {
    }
    BatchFacts facts;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const Completion completion = runner->take(ids[i])->value();
      expect_equal(completion, expected[i], "batch");
      facts.preemptions += completion.preemptions;
      facts.hits += completion.cached_tokens > 0 ? 1 : 0;
      facts.evicted += is_evicted(requests[i], runner->pools()) ? 1 : 0;
    }
    for (int g = 0; g < runner->pools().groups(); ++g) EXPECT_EQ(runner->pools().usage(g), 0);
    return facts;
  }

  Machine machine_{GetParam(), 2};
  std::vector<Request> requests_ = requests_for(GetParam().model.model);
  std::vector<Completion> expected_ = reference(*machine_.model, requests_);
};

TEST_P(SameBits, SequentialAndChunkedPrefillEqualTheWholePrompt) {
  for (const std::int64_t chunk : {sequential_prefill_rows, std::int64_t{7}, std::int64_t{16}}) {
    const auto runner = LocalRunner::create(*machine_.model, options(512, chunk)).value();
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      if (chunk == sequential_prefill_rows && i % 3 != 0) continue;
      expect_equal(runner->complete(spec_of(requests_[i])).value(), expected_[i], "chunks");
    }
  }
}

TEST_P(SameBits, BatchMatesChangeNothing) {
  expect_batch_equal(*machine_.model, requests_, expected_, options(2'048, 32));
}

TEST_P(SameBits, PreemptionOnAPoolOfHalfTheDemandChangesNothing) {
  std::vector<Request> growing(requests_.begin(), requests_.begin() + 5);
  std::int64_t demand = 0;
  for (Request& request : growing) {
    request.params.max_tokens = 60;
    demand += static_cast<std::int64_t>(request.prompt.size()) + 60;
  }
  const auto expected = reference(*machine_.model, growing);
  const LocalOptions half = options(demand / 2, 32);
  EXPECT_GT(expect_batch_equal(*machine_.model, growing, expected, half).preemptions, 0);
}

/// Prompts that share any number of leading ids with each other, and some that are repeated whole.
std::vector<Request> requests_that_share(const test::RandomModel& model, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const std::vector<TokenId> trunk = test::random_tokens(110, model.vocabulary, seed);
  std::vector<Request> out;
  for (int i = 0; i < 12; ++i) {
    Request request;
    request.prompt.assign(trunk.begin(), trunk.begin() + static_cast<int>(random() % 110));
    const auto own = test::random_tokens(1 + static_cast<int>(random() % 40), model.vocabulary,
                                         seed * 100 + static_cast<std::uint64_t>(i));
    request.prompt.insert(request.prompt.end(), own.begin(), own.end());
    if (i % 4 == 3) request.prompt = out.back().prompt;
    request.params.temperature = i % 2 == 0 ? 0.0f : 0.8f;
    request.params.seed = seed + static_cast<std::uint64_t>(i);
    request.params.max_tokens = 8 + static_cast<std::int64_t>(random() % 20);
    out.push_back(std::move(request));
  }
  return out;
}

TEST_P(SameBits, APrefixHitOfAnyLengthChangesNothingAndOnlyTheRestIsComputed) {
  const auto requests = requests_that_share(GetParam().model.model, 9);
  const auto expected = reference(*machine_.model, requests);
  const auto runner = LocalRunner::create(*machine_.model, options(2'048, 24)).value();
  std::int64_t hits = 0;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const std::uint64_t before = runner->counters().prefill_rows;
    const Completion completion = runner->complete(spec_of(requests[i])).value();
    expect_equal(completion, expected[i], "hit");
    const std::int64_t uncached = std::ssize(requests[i].prompt) - completion.cached_tokens;
    EXPECT_EQ(runner->counters().prefill_rows - before, static_cast<std::uint64_t>(uncached));
    hits += completion.cached_tokens > 0;
  }
  EXPECT_GT(hits, 5);
}

TEST_P(SameBits, PrefixHitsEvictionAndPreemptionTogetherChangeNothing) {
  auto requests = requests_that_share(GetParam().model.model, 10);
  for (Request& request : requests) request.params.max_tokens = 60;  // several outgrow the pool
  const auto expected = reference(*machine_.model, requests);
  const BatchFacts facts =
      expect_batch_equal(*machine_.model, requests, expected, options(256, 32));
  // Where every layer has a window, those that decode hold few blocks however long they get.
  const auto& groups = machine_.model->config().groups;
  const bool grows = std::any_of(groups.begin(), groups.end(),
                                 [](const auto& group) { return group.window == 0; });
  if (grows) {
    EXPECT_GT(facts.preemptions, 0);
  }
  EXPECT_GT(facts.hits, 0);
  EXPECT_GT(facts.evicted, 0);
}

TEST_P(SameBits, EverySetOfAClassComputesTheBitsOfItsDefinition) {
  // `spec` defines lanes16, `spec_tiles` tiles16; a class of one set is its own definition, here on
  // another thread count.
  const std::string_view name = machine_.kernel_set->numerics_class();
  const std::string set = name.starts_with("lanes16")   ? "spec"
                          : name.starts_with("tiles16") ? "spec_tiles"
                                                        : GetParam().set;
  Machine definition({set, GetParam().model}, 1);
  const std::span<const Request> few = std::span(requests_).subspan(4, 3);
  const auto expected = reference(*definition.model, few);
  for (std::size_t i = 0; i < few.size(); ++i) expect_equal(expected_[4 + i], expected[i], "set");
}

TEST_P(SameBits, TheNumberOfThreadsAndTheBlockSizeChangeNothing) {
  Machine other(GetParam(), 1);
  LocalOptions how_to = options(2'048, 48);
  how_to.cache.block_units = 4;
  expect_batch_equal(*other.model, requests_, expected_, how_to);
}

TEST_P(SameBits, AResumedRequestContinuesWithTheSameTokens) {
  const auto runner = LocalRunner::create(*machine_.model, options(512, 40)).value();
  for (std::size_t i = 0; i < requests_.size(); i += 2) {
    SequenceSpec spec = spec_of(requests_[i]);
    const std::vector<TokenId>& tokens = expected_[i].tokens;
    spec.generated.assign(tokens.begin(), tokens.begin() + 5 + static_cast<std::ptrdiff_t>(i));
    const auto sent = static_cast<std::ptrdiff_t>(spec.generated.size());
    const Completion rest = runner->complete(std::move(spec)).value();
    EXPECT_EQ(rest.tokens, std::vector<TokenId>(tokens.begin() + sent, tokens.end()));
    EXPECT_EQ(rest.logits_digests,
              std::vector<Digest128>(expected_[i].logits_digests.begin() + sent,
                                     expected_[i].logits_digests.end()));
  }
}

INSTANTIATE_TEST_SUITE_P(AllSets, SameBits, testing::ValuesIn(parameters()),
                         [](const auto& instance) {
                           return instance.param.set + "_" + instance.param.model.name;
                         });

}  // namespace
}  // namespace baton::engine
