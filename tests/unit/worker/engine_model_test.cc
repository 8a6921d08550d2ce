#include "baton/worker/engine_model.h"

#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

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

/// 0 when more threads than fit into so much more address space are refused by their number.
int load_with_too_many_threads(WorkerConfig config) {
  constexpr rlim_t bytes = rlim_t{128} << 20;
  long pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const rlim_t limit = static_cast<rlim_t>(pages) * ::sysconf(_SC_PAGESIZE) + bytes;
  const rlimit most = {limit, limit};
  if (::setrlimit(RLIMIT_AS, &most) != 0) return 77;
  config.threads = 1024;
  const auto model = load_engine_model(config, {});
  if (!model.has_error() || model.error().reason() != Reason::bad_config) return 1;
  return model.error().message().find("threads: 1024 ") == 0 ? 0 : 2;
}

TEST_F(EngineModelTest, RefusesMoreThreadsThanTheSystemGives) {
  if (sanitized) GTEST_SKIP() << "a sanitizer ends the process where memory cannot be mapped";
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) ::_exit(load_with_too_many_threads(config_));
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << "ended by signal " << WTERMSIG(status);
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "address space cannot be limited here";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace baton::worker
