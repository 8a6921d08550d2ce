#include "bench_cell.h"

#include <set>

#include <gmock/gmock.h>

#include "support/models/random_model.h"

namespace baton::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(BenchCell, NamesAreReadAsTheyAreWritten) {
  const auto cells = parse_cells("prefill-512,decode-2048,decode-128x32").value();
  EXPECT_THAT(cells, ElementsAre(BenchCell{true, 512, 1}, BenchCell{false, 2048, 1},
                                 BenchCell{false, 128, 32}));
  EXPECT_EQ(name_of(cells[0]), "prefill-512");
  EXPECT_EQ(name_of(cells[1]), "decode-2048x1");
  EXPECT_EQ(name_of(cells[2]), "decode-128x32");
}

TEST(BenchCell, WhatIsNoCellIsNamed) {
  for (const char* bad :
       {"prefill-", "prefill-0", "prefill-8x2", "decode-0", "decode-8x0", "decode-8x", "decode-8y2",
        "prefil-8", "decode-99999999", ",", "decode-8x2000", "prefill-128,,decode-8"}) {
    const auto cells = parse_cells(bad);
    ASSERT_FALSE(cells.has_value()) << bad;
    EXPECT_EQ(cells.error().reason(), Reason::invalid_request);
    EXPECT_THAT(cells.error().message(), HasSubstr("prefill-N")) << bad;
  }
  EXPECT_FALSE(parse_cells("").has_value());
}

TEST(BenchCell, IdsRepeatAndLieInTheVocabulary) {
  const auto ids = bench_ids(1000, 300, 1);
  EXPECT_EQ(ids, bench_ids(1000, 300, 1));
  EXPECT_NE(ids, bench_ids(1000, 300, 2));
  for (const TokenId id : ids) EXPECT_TRUE(id >= 0 && id < 300);
  EXPECT_GT(std::set<TokenId>(ids.begin(), ids.end()).size(), 250U);
}

TEST(ModelWork, CountsTheMatricesThatARowPasses) {
  test::RandomModel spec;
  const modelfile::ModelFile file = test::make_random_model(spec);
  const ModelWork work = ModelWork::of(file);
  double matrices = 0;
  double bytes = 0;
  for (const auto& tensor : file.tensors()) {
    const bool vocabulary = tensor.name == "token_embd.weight" || tensor.name == "output.weight";
    if (tensor.n_dims != 2 || vocabulary) continue;
    matrices += 2.0 * static_cast<double>(tensor.elements());
    bytes += static_cast<double>(tensor.size_bytes);
  }
  EXPECT_GT(matrices, 0);
  EXPECT_DOUBLE_EQ(work.int8_ops + work.bf16_ops + work.f32_ops, matrices);
  EXPECT_GT(work.output_ops, 0);
  EXPECT_GT(work.weight_bytes, bytes);
}

TEST(ModelWork, SharesAreTheLeastTimeOverTheMeasuredOne) {
  ModelWork work;
  work.weight_bytes = 100;
  work.int8_ops = 1000;
  work.bf16_ops = 300;
  work.output_ops = 650;
  const kernels::MachineLimits limits{50, 2000, 600, 100};
  // A row takes 0.5 + 0.5 s, its logits half of that.
  const LimitShares shares = shares_of(work, limits, 4, 2, 3, 200, 10);
  EXPECT_DOUBLE_EQ(shares.compute, 0.5);
  EXPECT_DOUBLE_EQ(shares.memory, 1.0);  // 300 + 200 bytes at 50 a second
}

}  // namespace
}  // namespace baton::cli
