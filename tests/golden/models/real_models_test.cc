// The set `ref` on real models against committed slices of the logits of transformers in float32
// (made by make_real_models.py).
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "baton/models/model.h"

#include "support/models/cached_run.h"
#include "support/models/default_model.h"

namespace baton::models {
namespace {

constexpr float tolerance = 1e-3f;

struct Entry {
  std::int32_t id;
  float logit;
};

struct Golden {
  std::vector<TokenId> tokens;
  std::size_t first = 0;  ///< position of the first row below
  std::vector<std::vector<Entry>> rows;
};

Golden read_golden(const std::string& name) {
  std::ifstream file(
      std::string(BATON_SOURCE_DIR) + "/tests/golden/models/data/" + name + ".golden",
      std::ios::binary);
  const auto read = [&](void* to, std::size_t bytes) {
    file.read(static_cast<char*>(to), static_cast<std::streamsize>(bytes));
  };
  std::int32_t counts[4] = {};
  read(counts, sizeof(counts));
  Golden golden;
  golden.tokens.resize(static_cast<std::size_t>(counts[0]));
  read(golden.tokens.data(), golden.tokens.size() * sizeof(TokenId));
  golden.first = static_cast<std::size_t>(counts[1]);
  golden.rows.assign(static_cast<std::size_t>(counts[2]),
                     std::vector<Entry>(static_cast<std::size_t>(counts[3])));
  for (auto& entries : golden.rows) read(entries.data(), entries.size() * sizeof(Entry));
  EXPECT_TRUE(file.good());
  EXPECT_EQ(golden.tokens.size(), golden.first + golden.rows.size());
  return golden;
}

void expect_golden_logits(const std::filesystem::path& path, const std::string& name) {
  kernels::ThreadPool pool(2);
  const auto kernels = kernels::make_kernels("ref", pool).value();
  const auto model = Model::load(path, *kernels, {.context_length = 1024}).value();
  const Golden golden = read_golden(name);
  const std::span<const TokenId> tokens = golden.tokens;
  test::CachedRun run(*model, {.dtype = tensor::CacheDtype::f32, .positions = 1024});
  const test::CachedRun::Part before{0, tokens.first(golden.first), LogitRows::none};
  ASSERT_TRUE(run.step({&before, 1}).has_value());
  const auto rows = run.append(0, tokens.subspan(golden.first));
  float largest = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto highest = std::ranges::max_element(rows[i]) - rows[i].begin();
    EXPECT_EQ(highest, golden.rows[i].front().id) << "position " << golden.first + i;
    for (const Entry& entry : golden.rows[i]) {
      const float difference = std::abs(rows[i][static_cast<std::size_t>(entry.id)] - entry.logit);
      ASSERT_LE(difference, tolerance) << "position " << golden.first + i << ", id " << entry.id;
      largest = std::max(largest, difference);
    }
  }
  std::printf("largest difference %.2e\n", static_cast<double>(largest));
}

TEST(RealModels, smollm2_gives_the_reference_logits_with_the_ref_kernels) {
  const auto path = test::default_model();
  if (path.empty()) GTEST_SKIP() << test::no_default_model;
  expect_golden_logits(path, "smollm2");
}

// Opt-in: the model's terms do not let it be fetched by default.
TEST(RealModels, gemma3_gives_the_reference_logits_with_the_ref_kernels) {
  const char* path = std::getenv("BATON_TEST_GEMMA");
  if (path == nullptr) GTEST_SKIP() << "BATON_TEST_GEMMA names no Gemma 3 270M (Q4_K_M) file";
  expect_golden_logits(path, "gemma3_270m");
}

}  // namespace
}  // namespace baton::models
