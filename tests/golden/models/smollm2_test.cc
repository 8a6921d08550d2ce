// The set `ref` on a real model against committed slices of the logits of transformers in float32
// (made by make_smollm2.py).
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "baton/models/model.h"

#include "support/models/cached_run.h"
#include "support/models/default_model.h"

namespace baton::models {
namespace {

struct Entry {
  std::int32_t id;
  float logit;
};

struct Slice {
  std::size_t first = 0;  ///< position of the first row
  std::vector<std::vector<Entry>> positions;
};

std::string data_path(const std::string& name) {
  return std::string(BATON_SOURCE_DIR) + "/tests/golden/models/data/" + name;
}

std::vector<TokenId> first_sequence() {
  std::ifstream file(data_path("english.tokens"));
  std::string line;
  std::getline(file, line);
  std::istringstream words(line);
  std::vector<TokenId> tokens;
  for (TokenId token = 0; words >> token;) tokens.push_back(token);
  return tokens;
}

Slice read_slice() {
  std::ifstream file(data_path("smollm2.golden"), std::ios::binary);
  const auto read = [&](void* to, std::size_t bytes) {
    file.read(static_cast<char*>(to), static_cast<std::streamsize>(bytes));
  };
  std::int32_t counts[3] = {};
  read(counts, sizeof(counts));
  Slice slice;
  slice.first = static_cast<std::size_t>(counts[0]);
  slice.positions.assign(static_cast<std::size_t>(counts[1]),
                         std::vector<Entry>(static_cast<std::size_t>(counts[2])));
  for (auto& entries : slice.positions) read(entries.data(), entries.size() * sizeof(Entry));
  EXPECT_TRUE(file.good());
  return slice;
}

TEST(SmolLM2, gives_the_reference_logits_with_the_ref_kernels) {
  const auto path = test::default_model();
  if (path.empty()) GTEST_SKIP() << test::no_default_model;
  kernels::ThreadPool pool(2);
  const auto kernels = kernels::make_kernels("ref", pool).value();
  const auto model = Model::load(path, *kernels, {.context_length = 256}).value();
  const Slice slice = read_slice();
  const std::vector<TokenId> tokens = first_sequence();
  test::CachedRun run(*model, {.dtype = tensor::CacheDtype::f32, .positions = 256});
  const std::size_t end = slice.first + slice.positions.size();
  ASSERT_GE(tokens.size(), end);
  const test::CachedRun::Part before{0, {tokens.data(), slice.first}, LogitRows::none};
  ASSERT_TRUE(run.step({&before, 1}).has_value());
  const auto rows = run.append(0, {tokens.data() + slice.first, slice.positions.size()});

  float largest = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto highest = std::ranges::max_element(rows[i]) - rows[i].begin();
    EXPECT_EQ(highest, slice.positions[i].front().id) << "position " << slice.first + i;
    for (const Entry& entry : slice.positions[i]) {
      const float difference = std::abs(rows[i][static_cast<std::size_t>(entry.id)] - entry.logit);
      ASSERT_LE(difference, 1e-3f) << "position " << slice.first + i << ", id " << entry.id;
      largest = std::max(largest, difference);
    }
  }
  std::printf("largest difference %.2e\n", static_cast<double>(largest));
}

}  // namespace
}  // namespace baton::models
