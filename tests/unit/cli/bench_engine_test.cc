#include "bench_engine.h"

#include <filesystem>
#include <sstream>

#include <boost/json.hpp>
#include <gmock/gmock.h>
#include <unistd.h>

#include "support/models/random_model.h"

namespace baton::cli {
namespace {

TEST(BenchEngine, PrintsTheSetUpAndOneObjectACell) {
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("baton-bench-" + std::to_string(getpid()));
  test::RandomModel spec;
  spec.vocabulary = test::text_vocabulary;
  spec.text = true;
  test::write_random_model(spec, path);
  BenchEngineOptions options;
  options.engine.model = path;
  options.engine.threads = 1;
  options.engine.cache_tokens = 64;  // cells have caches of their own size
  options.cells = "prefill-100,decode-20x3";
  options.repeats = 2;
  options.decode_steps = 4;
  options.json = true;
  testing::internal::CaptureStdout();
  EXPECT_EQ(bench_engine(options), 0);
  std::istringstream out(testing::internal::GetCapturedStdout());
  std::filesystem::remove(path);
  std::vector<boost::json::object> lines;
  for (std::string line; std::getline(out, line);) {
    lines.push_back(boost::json::parse(line).as_object());
  }
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_GT(lines[0].at("memory_bytes_per_second").as_double(), 0);
  EXPECT_EQ(lines[0].at("threads").as_int64(), 1);
  EXPECT_EQ(lines[1].at("cell").as_string(), "prefill-100");
  EXPECT_EQ(lines[2].at("cell").as_string(), "decode-20x3");
  for (std::size_t i = 1; i < 3; ++i) {
    EXPECT_GT(lines[i].at("tokens_per_second").as_double(), 0);
    EXPECT_GT(lines[i].at("share_of_compute").as_double(), 0);
    EXPECT_GT(lines[i].at("share_of_memory").as_double(), 0);
    EXPECT_GT(lines[i].at("pss_bytes").as_int64(), 0);
  }
}

TEST(BenchEngine, AMissingModelEndsWithItsReason) {
  BenchEngineOptions options;
  options.engine.model = "/nowhere/model.gguf";
  EXPECT_EQ(bench_engine(options), 78);
}

}  // namespace
}  // namespace baton::cli
