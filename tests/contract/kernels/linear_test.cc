#include <algorithm>
#include <cmath>

#include "support.h"

namespace baton::kernels {
namespace {

bool in_blocks_of_one(DType dtype) { return tensor::info(dtype).block_elements == 1; }

std::vector<int> input_sizes(DType dtype) {
  if (in_blocks_of_one(dtype)) return {1, 2, 33, 80, 577};
  if (tensor::info(dtype).block_elements == 32) return {32, 96, 576};
  return {256, 512};
}

class LinearEquality : public EverySet {};

TEST_P(LinearEquality, EveryTypeAndShapeEqualsSpec) {
  Random random(1);
  for (const DType dtype : all_dtypes) {
    for (const int inputs : input_sizes(dtype)) {
      for (const int outputs : {1, 16, 33, 70}) {
        const int rows = 1 + random.below(14);
        const Weight weight = random_weight(dtype, outputs, inputs, random);
        const std::vector<float> bias = random.vector(static_cast<std::size_t>(outputs));
        const Matrix x(rows, inputs, random);
        const std::span<const float> used = rows % 2 == 0 ? bias : std::span<const float>{};
        ASSERT_EQ(bits(linear(bench_, weight, used, x)), bits(linear(spec_, weight, used, x)))
            << tensor::info(dtype).name << ' ' << rows << 'x' << inputs << "->" << outputs;
      }
    }
  }
}

/// Longer than what the kernels keep unpacked at once, for more rows than one tile.
TEST_P(LinearEquality, LongRowsEqualSpec) {
  Random random(2);
  for (const DType dtype : all_dtypes) {
    const Weight weight = random_weight(dtype, 40, 2048, random);
    const Matrix x(19, 2048, random);
    ASSERT_EQ(bits(linear(bench_, weight, {}, x)), bits(linear(spec_, weight, {}, x)))
        << tensor::info(dtype).name;
  }
}

TEST_P(LinearEquality, EveryNumberOfRowsUpTo64EqualsSpec) {
  Random random(3);
  for (const DType dtype : all_dtypes) {
    const int inputs = input_sizes(dtype).front() == 256 ? 256 : 64;
    const Weight weight = random_weight(dtype, 34, inputs, random);
    for (int rows = 1; rows <= 64; ++rows) {
      const Matrix x(rows, inputs, random);
      ASSERT_EQ(bits(linear(bench_, weight, {}, x)), bits(linear(spec_, weight, {}, x)))
          << tensor::info(dtype).name << ' ' << rows;
    }
  }
}

/// Weights of more than 2 MiB are shared out otherwise than small ones.
TEST_P(LinearEquality, LargeWeightsOfManyRowsEqualSpec) {
  Random random(31);
  const Weight weight = random_weight(DType::bf16, 1040, 1056, random);
  const Matrix x(200, 1056, random);
  const auto expected = bits(linear(spec_, weight, {}, x));
  for (const int threads : {1, 3}) {
    Bench other(GetParam(), threads);
    ASSERT_EQ(bits(linear(other, weight, {}, x)), expected) << threads;
  }
}

/// Sums that become -0 by flushing, in front of the zeros that fill the last 32 inputs.
TEST_P(LinearEquality, TheZerosThatFillATileEqualSpec) {
  Weight weight{DType::bf16, 16, 66, std::vector<std::byte>(std::size_t{16} * 66 * 2)};
  Matrix x(1, 66);
  std::fill(x.values.begin(), x.values.end(), 0.0F);
  const auto set = [&](int i, float w, float value) {
    const auto upper = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(w) >> 16);
    for (int o = 0; o < 16; ++o) {
      std::memcpy(&weight.bytes[static_cast<std::size_t>(o * 66 + i) * 2], &upper, sizeof upper);
    }
    x.view.row(0)[i] = value;
  };
  set(0, 1.0F, 0x1p-126F);
  set(32, 1.0F, -0x1.02p-126F);
  set(64, -0x1p-80F, 0x1p-80F);
  set(65, -0x1p-80F, 0x1p-80F);
  EXPECT_EQ(bits(linear(bench_, weight, {}, x)), bits(linear(spec_, weight, {}, x)));
}

/// Groups that are all zero, all denormal, tiny, huge, and amax itself at every place.
Matrix awkward_rows(int rows, int inputs, Random& random) {
  Matrix x(rows, inputs, random);
  const float special[] = {0.0F, -0.0F, 0x1p-130F, -0x1p-127F, 0x1p-101F, 0x1p-99F, 1e30F, 0.5F};
  for (int r = 0; r < rows; ++r) {
    for (int i = 0; i < inputs; ++i) {
      if ((i / 32 + r) % 3 == 0) x.view.row(r)[i] = special[(i / 32 * 7 + r) % 8];
      if (random.below(9) == 0) x.view.row(r)[i] = special[random.below(8)];
    }
  }
  return x;
}

TEST_P(LinearEquality, DenormalZeroAndHugeInputsEqualSpec) {
  Random random(4);
  for (const DType dtype : all_dtypes) {
    const int inputs = 512;
    const Weight weight = random_weight(dtype, 20, inputs, random);
    const Matrix x = awkward_rows(9, inputs, random);
    ASSERT_EQ(bits(linear(bench_, weight, {}, x)), bits(linear(spec_, weight, {}, x)))
        << tensor::info(dtype).name;
  }
}

/// Quants and the K formats' own scales at their ends, activations at theirs.
TEST_P(LinearEquality, AWholeRowOfExtremeQuantsDoesNotSaturate) {
  for (const DType dtype : all_dtypes) {
    if (in_blocks_of_one(dtype)) continue;
    const int inputs = 2 * static_cast<int>(tensor::info(dtype).block_elements);
    for (const int fill : {0x00, 0x80, 0x7f, 0xff}) {
      Random random(5);
      Weight weight = random_weight(dtype, 17, inputs, random);
      const std::size_t block = tensor::info(dtype).block_bytes;
      const std::vector<std::size_t> halves = scale_offsets(dtype);
      for (std::size_t i = 0; i < weight.bytes.size(); ++i) {
        const auto in_half = [&](std::size_t at) { return i % block - at < 2; };
        if (std::none_of(halves.begin(), halves.end(), in_half)) {
          weight.bytes[i] = static_cast<std::byte>(fill);
        }
      }
      Matrix x(2, inputs);
      for (int i = 0; i < inputs; ++i) {
        x.view.row(0)[i] = 3.0F;
        x.view.row(1)[i] = -3.0F;
      }
      ASSERT_EQ(bits(linear(bench_, weight, {}, x)), bits(linear(spec_, weight, {}, x)))
          << tensor::info(dtype).name << ' ' << fill;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, LinearEquality, fast_sets, set_name);

class Linear : public EverySet {};

TEST_P(Linear, ARowAloneHasTheBitsThatItHasInABatch) {
  Random random(6);
  for (const DType dtype : all_dtypes) {
    const Weight weight = random_weight(dtype, 50, 256, random);
    const Matrix x(21, 256, random);
    const Matrix together = linear(bench_, weight, {}, x);
    for (const int r : {0, 7, 20}) {
      Matrix one(1, 256);
      std::copy_n(x.view.row(r), 256, one.view.data);
      ASSERT_EQ(bits(linear(bench_, weight, {}, one)), bits(together, r, 1))
          << tensor::info(dtype).name << " row " << r;
    }
  }
}

TEST_P(Linear, TheNumberOfThreadsChangesNoBit) {
  Random random(7);
  for (const DType dtype : all_dtypes) {
    const Weight weight = random_weight(dtype, 200, 256, random);
    // 200 rows on 5 threads are shared out by panels, in tasks of 192 rows and of 8.
    for (const int rows : {1, 200, 230}) {
      const Matrix x(rows, 256, random);
      const auto expected = bits(linear(bench_, weight, {}, x));
      for (int threads = 2; threads <= 5; ++threads) {
        Bench other(GetParam(), threads);
        ASSERT_EQ(bits(linear(other, weight, {}, x)), expected)
            << tensor::info(dtype).name << ' ' << threads;
      }
    }
  }
}

/// Reverses the order of the weight's blocks of inputs and of x with them: the same sum of the same
/// terms in another order.
TEST_P(Linear, AReorderedSumIsSeenInTheBits) {
  Random random(8);
  for (const DType dtype : all_dtypes) {
    // Whole pairs stay together for bf16, whole blocks for integers.
    const int block = static_cast<int>(tensor::info(dtype).block_elements);
    const int unit = std::max(2, block);
    const int inputs = std::max(256, 4 * block);
    const Weight weight = random_weight(dtype, 16, inputs, random);
    const Matrix x(1, inputs, random);
    Weight reversed = weight;
    Matrix reversed_x(1, inputs);
    const std::size_t bytes = tensor::row_bytes(dtype, static_cast<std::size_t>(unit));
    const int units = inputs / unit;
    for (int u = 0; u < units; ++u) {
      const int from = units - 1 - u;
      std::copy_n(x.view.data + from * unit, unit, reversed_x.view.data + u * unit);
      for (int o = 0; o < 16; ++o) {
        std::memcpy(&reversed.bytes[static_cast<std::size_t>(o * units + u) * bytes],
                    &weight.bytes[static_cast<std::size_t>(o * units + from) * bytes], bytes);
      }
    }
    const Matrix y = linear(bench_, weight, {}, x);
    const Matrix other = linear(bench_, reversed, {}, reversed_x);
    EXPECT_NE(bits(y), bits(other)) << tensor::info(dtype).name;
    for (int o = 0; o < 16; ++o) EXPECT_NEAR(y.view.data[o], other.view.data[o], 1e-3);
  }
}

/// The largest relative error of a product of rounded values: x is rounded to bf16 with bf16
/// weights.
double rounded_product_error(DType dtype) { return dtype == DType::bf16 ? 0x1p-8 : 0; }

/// |error| <= error of the rounded values, plus that of two float sums of n terms.
double tolerance(DType dtype, const float* x, const float* w, int n) {
  const bool integer = !in_blocks_of_one(dtype);
  double rounding = 0;
  double magnitude = 0;
  for (int g = 0; g < n; g += 32) {
    const int end = std::min(n, g + 32);
    double amax = 0;
    for (int i = g; i < end; ++i) amax = std::max(amax, std::fabs(double{x[i]}));
    for (int i = g; i < end; ++i) {
      // Half a step of 1/127 of the group's largest value.
      const double error =
          integer ? amax / 127 * 0.5001 : std::fabs(x[i]) * rounded_product_error(dtype);
      rounding += error * std::fabs(w[i]);
      // An integer group's terms are bounded by its largest activation.
      magnitude += (integer ? amax : std::fabs(x[i]) * 1.01) * std::fabs(w[i]);
    }
  }
  return rounding + 2 * (n + 4) * 0x1p-24 * magnitude + 1e-30;
}

TEST_P(Linear, StaysWithinTheDerivedDistanceOfRef) {
  Random random(9);
  Bench ref("ref");
  for (const DType dtype : all_dtypes) {
    const int inputs = in_blocks_of_one(dtype) ? 577 : 512;
    const Weight weight = random_weight(dtype, 35, inputs, random);
    const std::vector<float> w = weight.values();
    const Matrix x(6, inputs, random);
    const Matrix y = linear(bench_, weight, {}, x);
    const Matrix expected = linear(ref, weight, {}, x);
    for (int r = 0; r < 6; ++r) {
      for (int o = 0; o < 35; ++o) {
        const double bound = tolerance(dtype, x.view.row(r),
                                       w.data() + static_cast<std::ptrdiff_t>(o) * inputs, inputs);
        ASSERT_NEAR(y.view.row(r)[o], expected.view.row(r)[o], bound)
            << tensor::info(dtype).name << ' ' << r << ' ' << o;
      }
    }
  }
}

TEST_P(Linear, NotANumberReachesTheOutput) {
  Random random(10);
  for (const DType dtype : all_dtypes) {
    const Weight weight = random_weight(dtype, 5, 256, random);
    Matrix x(2, 256, random);
    x.view.row(0)[77] = std::numeric_limits<float>::quiet_NaN();
    const Matrix y = linear(bench_, weight, {}, x);
    EXPECT_TRUE(std::isnan(y.view.row(0)[3])) << tensor::info(dtype).name;
    EXPECT_FALSE(std::isnan(y.view.row(1)[3])) << tensor::info(dtype).name;
  }
}

TEST_P(Linear, EmbeddingReturnsTheDequantisedRowTimesTheScale) {
  Random random(11);
  for (const DType dtype : all_dtypes) {
    const Weight weight = random_weight(dtype, 37, 256, random);
    const std::vector<float> w = weight.values();
    tensor::Buffer packed(bench_.kernels->packed_bytes(weight.view()));
    bench_.kernels->pack(weight.view(), packed.data());
    const TokenId ids[] = {36, 0, 17};
    Matrix out(3, 256);
    bench_.kernels->embed({dtype, 37, 256, packed.data()}, ids, 24.0F, out.view);
    for (int r = 0; r < 3; ++r) {
      for (int i = 0; i < 256; ++i) {
        const float value = w[static_cast<std::size_t>(ids[r]) * 256 + static_cast<std::size_t>(i)];
        const float expected = std::fpclassify(value) == FP_SUBNORMAL ? 0 : value * 24.0F;
        ASSERT_EQ(out.view.row(r)[i], expected) << tensor::info(dtype).name;
      }
    }
  }
}

TEST_P(Linear, PackedWeightsAreAboutAsLargeAsTheFile) {
  for (const DType dtype : all_dtypes) {
    const WeightView weight{dtype, 64, 512, nullptr};
    const double file = 64.0 * static_cast<double>(tensor::row_bytes(dtype, 512));
    const auto packed = static_cast<double>(bench_.kernels->packed_bytes(weight));
    EXPECT_LE(packed, 1.03 * file) << tensor::info(dtype).name;
    EXPECT_GE(packed, file) << tensor::info(dtype).name;
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, Linear, class_sets, set_name);

}  // namespace
}  // namespace baton::kernels
