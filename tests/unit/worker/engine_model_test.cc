#include "baton/worker/engine_model.h"

#include <filesystem>
#include <string>

#include <gtest/gtest.h>
#include <unistd.h>

#include "support/little_space.h"
#include "support/models/random_model.h"

namespace baton::worker {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool sanitized = true;
#else
constexpr bool sanitized = false;
#endif

class EngineModelTest : public testing::Test {
 protected:
  EngineModelTest() {
    test::write_random_model({.vocabulary = test::text_vocabulary, .text = true}, path_);
    config_.model = path_.string();
    config_.context_length = 64;
    config_.threads = 1;
  }
  ~EngineModelTest() override { std::filesystem::remove(path_); }

  std::filesystem::path path_ = std::filesystem::path(testing::TempDir()) /
                                ("engine-model-" + std::to_string(::getpid()) + ".gguf");
  WorkerConfig config_;
};

TEST_F(EngineModelTest, HasACacheOfTwiceTheContextWhereThereIsRoom) {
  const auto model = load_engine_model(config_, {});
  ASSERT_TRUE(model.has_value()) << model.error().message();
  EXPECT_EQ(model->cache.positions, 128);
  EXPECT_EQ(model->context_length, 64);
}

TEST_F(EngineModelTest, TellsTheCacheThatItHasWhichIsOfWholeBlocks) {
  for (const auto& [asked, held] : {std::pair{1, 64}, {64, 64}, {1000, 1024}}) {
    config_.cache_tokens = asked;
    const auto model = load_engine_model(config_, {});
    ASSERT_TRUE(model.has_value()) << model.error().message();
    EXPECT_EQ(model->cache.positions, held);
  }
}

TEST_F(EngineModelTest, ChoosesTheFastestSetForTheTypeOfTheWeights) {
  test::write_random_model(
      {.type = modelfile::GgmlType::bf16, .vocabulary = test::text_vocabulary, .text = true},
      path_);
  const auto chosen = load_engine_model(config_, {});
  ASSERT_TRUE(chosen.has_value()) << chosen.error().message();
  EXPECT_EQ(chosen->kernels->set_name(), kernels::fastest_set(true));
  // By name it is what was asked for: nodes without tiles need the class that they have.
  config_.kernels = "spec";
  const auto named = load_engine_model(config_, {});
  ASSERT_TRUE(named.has_value()) << named.error().message();
  EXPECT_EQ(named->kernels->numerics_class(), "lanes16-4");
}

TEST_F(EngineModelTest, ComputesWeightsOfOtherTypesInTheClassOfAllMachines) {
  const auto model = load_engine_model(config_, {});
  ASSERT_TRUE(model.has_value()) << model.error().message();
  EXPECT_EQ(model->kernels->set_name(), kernels::fastest_set(false));
  EXPECT_EQ(model->kernels->numerics_class(), "lanes16-4");
}

/// 0 when more threads than there is space for are refused by their number.
int load_with_too_many_threads(WorkerConfig config) {
  config.threads = 1024;
  const auto model = load_engine_model(config, {});
  if (!model.has_error() || model.error().reason() != Reason::bad_config) return 1;
  return model.error().message().find("threads: 1024 ") == 0 ? 0 : 2;
}

TEST_F(EngineModelTest, RefusesMoreThreadsThanTheSystemGives) {
  if (sanitized) GTEST_SKIP() << "a sanitizer ends the process where memory cannot be mapped";
  const int result =
      test::run_in_little_space([this] { return load_with_too_many_threads(config_); });
  if (result == test::not_limited) GTEST_SKIP() << "address space cannot be limited here";
  EXPECT_EQ(result, 0);
}

}  // namespace
}  // namespace baton::worker
