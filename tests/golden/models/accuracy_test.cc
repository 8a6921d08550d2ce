// How far the fast kernels with a bf16 cache are from float32 (`ref` with an f32 cache) on real
// weights and English text, beside llama.cpp's figures for the same files and positions (made by
// llamacpp_accuracy.py).
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <boost/json.hpp>
#include <gmock/gmock.h>

#include "baton/models/fastest_set.h"
#include "baton/models/model.h"

#include "support/models/cached_run.h"
#include "support/models/default_model.h"

namespace baton::models {
namespace {

struct Figures {
  double mean_kl = 0;
  double top1_disagreement = 0;
  int positions = 0;
};

std::string data_path(const std::string& name) {
  return std::string(BATON_SOURCE_DIR) + "/tests/golden/models/data/" + name;
}

std::vector<std::vector<TokenId>> sequences() {
  std::ifstream file(data_path("english.tokens"));
  std::vector<std::vector<TokenId>> all;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    auto& tokens = all.emplace_back();
    for (TokenId token = 0; words >> token;) tokens.push_back(token);
  }
  return all;
}

/// Of each file by its name, without the ending.
std::map<std::string, Figures> figures_of_llamacpp() {
  std::ifstream file(data_path("llamacpp_accuracy.json"));
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const boost::json::value json = boost::json::parse(text);
  std::map<std::string, Figures> all;
  for (const auto& [name, value] : json.at("files").as_object()) {
    all[name] = {value.at("mean_kl").to_number<double>(),
                 value.at("top1_disagreement").to_number<double>(),
                 value.at("positions").to_number<int>()};
  }
  return all;
}

/// KL(wanted || got) in nats.
double divergence(std::span<const float> wanted, std::span<const float> got) {
  const double wanted_top = *std::ranges::max_element(wanted);
  const double got_top = *std::ranges::max_element(got);
  double wanted_sum = 0;
  double got_sum = 0;
  double weighted = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const double a = wanted[i] - wanted_top;
    const double b = got[i] - got_top;
    const double weight = std::exp(a);
    wanted_sum += weight;
    got_sum += std::exp(b);
    weighted += weight * (a - b);
  }
  return weighted / wanted_sum - std::log(wanted_sum) + std::log(got_sum);
}

void compare_rows(const StepOutput& wanted, const StepOutput& got, Figures& sums) {
  ASSERT_EQ(wanted.logits.rows, got.logits.rows);
  for (int r = 0; r < wanted.logits.rows; ++r) {
    const std::span a(wanted.logits.row(r), static_cast<std::size_t>(wanted.logits.cols));
    const std::span b(got.logits.row(r), static_cast<std::size_t>(got.logits.cols));
    sums.mean_kl += divergence(a, b);
    const auto top_a = std::ranges::max_element(a) - a.begin();
    const auto top_b = std::ranges::max_element(b) - b.begin();
    sums.top1_disagreement += top_a == top_b ? 0 : 1;
    ++sums.positions;
  }
}

constexpr tensor::CacheDtype caches[] = {tensor::CacheDtype::bf16, tensor::CacheDtype::q8_0};

/// Of `got` with each of the caches.
std::array<Figures, std::size(caches)> compare(Model& wanted, Model& got) {
  constexpr std::size_t step_tokens = 128;
  std::array<Figures, std::size(caches)> all;
  for (const std::vector<TokenId>& tokens : sequences()) {
    const auto positions = static_cast<std::int64_t>(tokens.size());
    test::CachedRun a(wanted, {.dtype = tensor::CacheDtype::f32, .positions = positions});
    std::vector<test::CachedRun> runs;
    for (const tensor::CacheDtype dtype : caches) {
      runs.emplace_back(got, test::CacheOptions{.dtype = dtype, .positions = positions});
    }
    for (std::size_t first = 0; first < tokens.size(); first += step_tokens) {
      const std::size_t count = std::min(step_tokens, tokens.size() - first);
      const test::CachedRun::Part part{0, {tokens.data() + first, count}, LogitRows::all};
      const StepOutput expected = a.step({&part, 1}).value();
      for (std::size_t i = 0; i < all.size(); ++i) {
        compare_rows(expected, runs[i].step({&part, 1}).value(), all[i]);
      }
    }
  }
  for (Figures& figures : all) {
    figures.mean_kl /= figures.positions;
    figures.top1_disagreement /= figures.positions;
  }
  return all;
}

void expect_as_close_as_llamacpp(const std::filesystem::path& path, const Figures& peer) {
  kernels::ThreadPool pool(
      static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1u, 8u)));
  const auto ref = kernels::make_kernels("ref", pool).value();
  const modelfile::ModelFile file = modelfile::ModelFile::open(path).value();
  const auto fast = kernels::make_kernels(fastest_set(file), pool).value();
  const LoadOptions options{.context_length = 2048};
  const auto wanted = Model::load(path, *ref, options).value();
  const auto got = Model::load(path, *fast, options).value();

  const auto [ours, quantised] = compare(*wanted, *got);
  std::printf(
      "%s, %d positions, set %s: mean KL %.3e, top-1 disagreement %.2f %%; "
      "llama.cpp: %.3e, %.2f %%; with a cache of q8_0: %.3e, %.2f %%\n",
      path.stem().c_str(), ours.positions, std::string(fast->set_name()).c_str(), ours.mean_kl,
      100 * ours.top1_disagreement, peer.mean_kl, 100 * peer.top1_disagreement, quantised.mean_kl,
      100 * quantised.top1_disagreement);
  EXPECT_GE(ours.positions, 2000);
  EXPECT_EQ(ours.positions, peer.positions);
  EXPECT_LE(ours.mean_kl, std::max(2e-3, 1.1 * peer.mean_kl));
  EXPECT_LE(ours.top1_disagreement, std::max(0.02, 1.1 * peer.top1_disagreement));
  // Of a model that is quantised itself, the cache is the smaller error.
  EXPECT_LE(quantised.mean_kl, std::max(2e-3, 1.25 * ours.mean_kl));
  EXPECT_LE(quantised.top1_disagreement, std::max(0.02, 1.25 * ours.top1_disagreement));
}

TEST(FastKernels, are_as_close_to_float32_as_the_best_peer) {
  const std::filesystem::path path = test::default_model();
  if (path.empty()) GTEST_SKIP() << test::no_default_model;
  expect_as_close_as_llamacpp(path, figures_of_llamacpp().at("SmolLM2-135M-Instruct.Q4_1"));
}

TEST(FastKernels, are_as_close_with_every_type_of_weights) {
  const char* folder = std::getenv("BATON_TEST_ACCURACY_MODELS");
  if (folder == nullptr) {
    GTEST_SKIP() << "BATON_TEST_ACCURACY_MODELS names no folder of tests/bench/make_models --types";
  }
  for (const auto& [name, peer] : figures_of_llamacpp()) {
    const std::filesystem::path path = std::filesystem::path(folder) / (name + ".gguf");
    if (!name.starts_with("smollm2-")) continue;
    SCOPED_TRACE(name);
    ASSERT_TRUE(std::filesystem::exists(path)) << path;
    expect_as_close_as_llamacpp(path, peer);
  }
}

}  // namespace
}  // namespace baton::models
