#include <cmath>

#include "support.h"

namespace baton::kernels {
namespace {

/// Values over the whole range of the activations, and the corners of the format.
Matrix wide_range(int rows, int cols, Random& random) {
  constexpr float corners[] = {0.0F,  -0.0F,  0x1p-130F, -0x1p-126F, 0.625F, -0.625F,
                               90.0F, -90.0F, 1e30F,     -1e30F,     88.37F, -87.34F};
  Matrix m(rows, cols, random, 4.0F);
  for (float& v : m.values) {
    if (random.below(6) == 0) v = corners[random.below(12)];
    if (random.below(6) == 0) v *= 10;
  }
  return m;
}

struct RopeInput {
  RopeInput(int head_dim, int rotary, bool interleaved, Random& random)
      : dim(head_dim), table{rotary, 50, interleaved, {}, {}} {
    table.cosines = random.vector(std::size_t{25} * static_cast<std::size_t>(rotary));
    table.sines = random.vector(std::size_t{25} * static_cast<std::size_t>(rotary));
  }
  int dim;
  RopeTable table;
};

/// Every operation on rows, its outputs one after the other.
std::vector<std::uint32_t> all_operations(Bench& bench, const Matrix& x, const Matrix& y,
                                          std::span<const float> weight, const RopeInput& rope) {
  Kernels& k = *bench.kernels;
  std::vector<std::uint32_t> result;
  const auto keep = [&result](const Matrix& m) {
    const auto more = bits(m);
    result.insert(result.end(), more.begin(), more.end());
  };
  Matrix out(x.view.rows, x.view.cols);
  k.rms_norm(y.view, weight, 1e-5F, out.view);
  keep(out);
  k.rms_norm(y.view, weight.first(static_cast<std::size_t>(rope.dim)), 1e-6F, out.view);
  keep(out);
  k.gated(Activation::silu, x.view, y.view, out.view);
  keep(out);
  k.gated(Activation::gelu_tanh, x.view, y.view, out.view);
  keep(out);
  Matrix capped = x;
  k.soft_cap(capped.view, 30.0F);
  keep(capped);
  Matrix sum = x;
  k.add(sum.view, y.view);
  keep(sum);
  std::vector<std::int64_t> positions;
  for (int r = 0; r < x.view.rows; ++r) positions.push_back((r * 7 + 3) % 50);
  Matrix rotated = y;
  k.rope(rotated.view, rope.dim, rope.table, positions);
  keep(rotated);
  return result;
}

class RowsEquality : public EverySet {};

TEST_P(RowsEquality, EveryOperationEqualsSpec) {
  Random random(41);
  for (const int head_dim : {6, 16, 34, 64, 80}) {
    for (const bool interleaved : {false, true}) {
      const int rows = 1 + random.below(5);
      const Matrix x = wide_range(rows, 3 * head_dim, random);
      const Matrix y(rows, 3 * head_dim, random);
      const std::vector<float> weight =
          random.vector(std::size_t{3} * static_cast<std::size_t>(head_dim));
      const int rotary = interleaved ? head_dim : head_dim / 4 * 2;
      const RopeInput rope(head_dim, rotary, interleaved, random);
      ASSERT_EQ(all_operations(bench_, x, y, weight, rope),
                all_operations(spec_, x, y, weight, rope))
          << head_dim;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, RowsEquality, fast_sets, set_name);

class RowOperations : public EverySet {};

TEST_P(RowOperations, ThreadsAndBatchingChangeNoBit) {
  Random random(42);
  const Matrix x = wide_range(300, 128, random);
  const Matrix y(300, 128, random);
  const std::vector<float> weight = random.vector(128);
  const RopeInput rope(64, 64, false, random);
  Bench three(GetParam(), 3);
  EXPECT_EQ(all_operations(bench_, x, y, weight, rope), all_operations(three, x, y, weight, rope));
}

float ulp(float x) {
  const float next = std::nextafter(std::fabs(x), std::numeric_limits<float>::infinity());
  return next - std::fabs(x);
}

/// The worst error in units of the last place, over the results that are normal numbers.
template <typename Function>
double worst_ulps(const Matrix& x, const Matrix& y, const Function& exact) {
  double worst = 0;
  for (int c = 0; c < x.view.cols; ++c) {
    const double expected = exact(double{x.view.data[c]});
    if (std::fabs(expected) < 0x1p-120) continue;
    const double error = std::fabs(y.view.data[c] - expected) / ulp(static_cast<float>(expected));
    worst = std::max(worst, error);
  }
  return worst;
}

/// Evenly spaced inputs.
Matrix ramp(int n, float low, float high) {
  Matrix x(1, n);
  for (int i = 0; i < n; ++i) {
    x.view.data[i] = low + (high - low) * static_cast<float>(i) / static_cast<float>(n);
  }
  return x;
}

TEST_P(RowOperations, TanhIsWithinTwoUnitsOfTheLastPlace) {
  // A cap of one is tanh itself.
  const Matrix x = ramp(40000, -12.0F, 12.0F);
  Matrix y = x;
  bench_.kernels->soft_cap(y.view, 1.0F);
  EXPECT_LT(worst_ulps(x, y, [](double v) { return std::tanh(v); }), 2.0);
}

TEST_P(RowOperations, SiluIsWithinThreeUnitsOfTheLastPlace) {
  const Matrix x = ramp(40000, -80.0F, 80.0F);
  Matrix ones(1, 40000);
  std::fill(ones.values.begin(), ones.values.end(), 1.0F);
  Matrix y(1, 40000);
  bench_.kernels->gated(Activation::silu, x.view, ones.view, y.view);
  EXPECT_LT(worst_ulps(x, y, [](double v) { return v / (1 + std::exp(-v)); }), 3.0);
}

TEST_P(RowOperations, NormAndRopeStayCloseToRef) {
  Random random(43);
  Bench ref("ref");
  const Matrix x(4, 576, random);
  const std::vector<float> weight = random.vector(576);
  Matrix y(4, 576);
  Matrix expected(4, 576);
  bench_.kernels->rms_norm(x.view, weight, 1e-5F, y.view);
  ref.kernels->rms_norm(x.view, weight, 1e-5F, expected.view);
  // Two roundings of each product, a mean of 576 squares, a root and a division.
  for (std::size_t i = 0; i < y.values.size(); ++i) {
    ASSERT_NEAR(y.values[i], expected.values[i], std::fabs(expected.values[i]) * 80 * 0x1p-23);
  }
  const RopeInput rope(64, 64, false, random);
  const std::int64_t positions[] = {0, 1, 49, 7};
  Matrix a = x;
  Matrix b = x;
  bench_.kernels->rope(a.view, 64, rope.table, positions);
  ref.kernels->rope(b.view, 64, rope.table, positions);
  for (std::size_t i = 0; i < a.values.size(); ++i) ASSERT_NEAR(a.values[i], b.values[i], 1e-5);
}

/// 16 values whose squares add up to different bits in another order.
TEST_P(RowOperations, AReorderedSumOfANormIsSeenInTheBits) {
  Random random(44);
  Matrix x(1, 576, random);
  const std::vector<float> weight(576, 1.0F);
  Matrix y(1, 576);
  bench_.kernels->rms_norm(x.view, weight, 1e-5F, y.view);
  bool differs = false;
  for (int round = 0; round < 8 && !differs; ++round) {
    // Moves values to other lanes; the norm's factor is the same but for rounding.
    std::rotate(x.values.begin(), x.values.begin() + 5, x.values.begin() + 576);
    Matrix other(1, 576);
    bench_.kernels->rms_norm(x.view, weight, 1e-5F, other.view);
    std::rotate(other.values.begin(), other.values.begin() + 576 - 5 * (round + 1),
                other.values.begin() + 576);
    differs = bits(other) != bits(y);
  }
  EXPECT_TRUE(differs);
}

INSTANTIATE_TEST_SUITE_P(Kernels, RowOperations, class_sets, set_name);

class Probe : public EverySet {};

TEST_P(Probe, EqualsThatOfSpecAndDiffersFromRef) {
  EXPECT_EQ(bench_.kernels->probe(), spec_.kernels->probe());
  Bench ref("ref");
  EXPECT_NE(bench_.kernels->probe(), ref.kernels->probe());
}

INSTANTIATE_TEST_SUITE_P(Kernels, Probe, class_sets, set_name);

TEST(ProbeDigest, IsTheOneOfThisRevision) {
  // A change of bits on any machine must be a decision: a new revision of the class.
  Bench spec("spec");
  EXPECT_EQ(spec.kernels->probe().to_string(), "1ceec97c8daa8dbc9cc4623a24ec16f2");
  Bench tiles("spec_tiles");
  EXPECT_EQ(tiles.kernels->probe().to_string(), "8993e69401b60861f115dec881c58795");
}

TEST(Sets, AnUnknownSetIsRefusedByName) {
  ThreadPool pool(1);
  const auto made = make_kernels("avx1024", pool);
  ASSERT_TRUE(made.has_error());
  EXPECT_EQ(made.error().reason(), Reason::bad_config);
  EXPECT_NE(made.error().message().find("avx1024"), std::string::npos);
}

TEST(Sets, CpuIsTheFastestSetOfTheClass) {
  Bench bench("cpu");
  ASSERT_NE(bench.kernels, nullptr);
  EXPECT_EQ(bench.kernels->set_name(), available_sets().back());
  EXPECT_EQ(bench.kernels->numerics_class(), "lanes16-4");
}

TEST(Sets, TilesAreChosenForBf16AloneAndOnlyWhereTheProcessorHasThem) {
  const std::vector<std::string_view> sets = available_sets();
  EXPECT_EQ(fastest_set(false), sets.back());
  const bool has = std::find(sets.begin(), sets.end(), "amx_tiles") != sets.end();
  EXPECT_EQ(fastest_set(true), has ? "amx_tiles" : sets.back());
}

}  // namespace
}  // namespace baton::kernels
