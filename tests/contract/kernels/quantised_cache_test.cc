// A cache of q8_0: what is written, bit by bit, and how far attention on it is from float32.
#include <cmath>
#include <limits>

#include <immintrin.h>

#include "cache_support.h"

namespace baton::kernels {
namespace {

constexpr int channels = tensor::scale_channels;
constexpr float infinity = std::numeric_limits<float>::infinity();

float bf16_value(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

/// One head's cached row as the unit holds it: quants, and a scale for each 32 of them.
struct Row {
  std::vector<std::int8_t> quants;
  std::vector<std::uint16_t> scales;

  bool operator==(const Row&) const = default;
};

Row row_of(Sequence& sequence, tensor::KvPart part, int head, int position) {
  const tensor::UnitLayout& unit = sequence.geometry.unit;
  const bool is_k = part == tensor::KvPart::k;
  const std::byte* slice = sequence.slot(is_k ? sequence.k_blocks : sequence.v_blocks, position) +
                           static_cast<std::size_t>(head) * unit.head_bytes();
  const int at = position % tensor::unit_positions;
  Row row;
  for (int d = 0; d < unit.head_dim; ++d) {
    const std::size_t index = is_k ? unit.k_index(at, d) : unit.v_index(at, d);
    row.quants.push_back(static_cast<std::int8_t>(slice[index]));
    if (d % channels != 0) continue;
    const std::size_t scale = is_k ? unit.k_scale_index(at, d) : unit.v_scale_index(at, d);
    std::memcpy(&row.scales.emplace_back(), slice + unit.element_bytes() + scale * 2, 2);
  }
  return row;
}

/// The rule, written differently: the least bf16 that is not below amax / 127, and nearest-even
/// integers of the rounded products with its inverse.
Row expected_row(const float* x, int count) {
  Row row;
  for (int d = 0; d < count; d += channels) {
    float amax = 0;
    bool finite = true;
    for (int i = d; i < d + channels; ++i) {
      finite = finite && std::isfinite(x[i]);
      amax = std::fmax(amax, std::fabs(x[i]));
    }
    const bool zero = finite && amax < 0x1p-100F;
    const float wanted = amax / 127.0F;
    std::uint16_t scale = 0x7fc0;
    if (finite) {
      scale = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(wanted) >> 16);
      if (bf16_value(scale) < wanted) ++scale;
    }
    row.scales.push_back(zero ? 0 : scale);
    const float inverse = 1.0F / bf16_value(scale);
    for (int i = d; i < d + channels; ++i) {
      const float quant = finite && !zero ? std::nearbyint(x[i] * inverse) : 0.0F;
      row.quants.push_back(static_cast<std::int8_t>(quant));
    }
  }
  return row;
}

/// Rows of every size that a float has, with whole groups of one kind.
Matrix odd_rows(int rows, int cols, Random& random) {
  Matrix m(rows, cols);
  for (int r = 0; r < rows; ++r) {
    for (int c = 0; c < cols; c += channels) {
      const int kind = random.below(10);
      const float size = kind == 0   ? 0x1p-130F
                         : kind == 1 ? 0x1p-101F
                         : kind == 2 ? 0x1p-99F
                         : kind == 3 ? 0x1p+120F
                         : kind == 4 ? 0.0F
                                     : 1.0F;
      for (int i = c; i < c + channels; ++i) m.view.row(r)[i] = random.normal(size);
      if (kind == 5) m.view.row(r)[c + random.below(channels)] = infinity;
      if (kind == 6) m.view.row(r)[c + random.below(channels)] = std::nanf("");
      if (kind == 7) m.view.row(r)[c + random.below(channels)] = 0x1p-140F;
      if (kind == 8) m.view.row(r)[c + random.below(channels)] = 127 * 0x1p+3F;  // a scale of 8
      if (kind == 9) m.view.row(r)[c] = -std::numeric_limits<float>::max();
    }
  }
  return m;
}

class QuantisedCache : public EverySet {};

TEST_P(QuantisedCache, HoldsRowsAsTheRuleSaysInAnyFloatMode) {
  Random random(41);
  const Shape shape{CacheDtype::q8_0, 3, 3, 96, 2, 0, 0.0F};
  const int length = 70;
  const Matrix k = odd_rows(length, 3 * 96, random);
  const Matrix v = odd_rows(length, 3 * 96, random);
  const unsigned before = _mm_getcsr();
  for (const unsigned flush : {0x0000U, 0x8040U}) {
    Sequence sequence(shape.cache(), length, random);
    const RowSpan all = sequence.span(0, length, 0);
    _mm_setcsr((before & ~0x8040U) | flush);
    bench_.kernels->write_kv(shape.cache(), k.view, v.view, {&all, 1});
    _mm_setcsr(before);
    for (int p = 0; p < length; ++p) {
      for (int head = 0; head < 3; ++head) {
        ASSERT_EQ(row_of(sequence, tensor::KvPart::k, head, p),
                  expected_row(k.view.row(p) + head * 96, 96))
            << "key " << p << " of head " << head << ", mode " << flush;
        ASSERT_EQ(row_of(sequence, tensor::KvPart::v, head, p),
                  expected_row(v.view.row(p) + head * 96, 96))
            << "value " << p << " of head " << head << ", mode " << flush;
      }
    }
  }
}

/// What is not finite is seen by the heads that read it and by no other.
TEST_P(QuantisedCache, AGroupThatIsNotFiniteReadsAsNaN) {
  Random random(42);
  const Shape shape{CacheDtype::q8_0, 4, 2, 64, 1, 0, 0.0F};
  Inputs in(shape, 20, random);
  in.v.view.row(3)[64 + 40] = infinity;  // of the second cached head, channels 32 to 63
  Sequence sequence(shape.cache(), 20, random);
  Matrix out(20, in.q.view.cols);
  step(bench_, shape, sequence, in, 0, 20, out);
  for (int r = 0; r < 20; ++r) {
    for (int c = 0; c < 4 * 64; ++c) {
      const bool reads_it = r >= 3 && c >= 2 * 64 && c % 64 >= 32;
      ASSERT_EQ(std::isnan(out.view.row(r)[c]), reads_it) << "row " << r << " column " << c;
    }
  }
}

/// How far a cached channel can be from what was written: half a step of its group, whose scale was
/// rounded up to bf16, and the roundings of the product with its inverse.
double half_step(const float* row, int d) {
  float amax = 0;
  for (int i = d / channels * channels; i < (d / channels + 1) * channels; ++i) {
    amax = std::fmax(amax, std::fabs(row[i]));
  }
  return (0.5 + 127 * 0x1p-22) * (1 + 0x1p-7) * 1.000001 * amax / 127;
}

/// A bound on a query's distance from float32 on unrounded keys and values: scores move by at most
/// `score`, so weights by a factor e^(2 score); a weighted mean of values moves by no more than the
/// values do; then come the sums over d and over the keys.
double tolerance(const Shape& shape, const Inputs& in, int row, int head) {
  const int first = shape.window > 0 ? std::max(0, row - shape.window + 1) : 0;
  const int channel = head / (shape.heads / shape.kv_heads) * shape.head_dim;
  const float* q = in.q.view.row(row) + head * shape.head_dim;
  double product = 0;
  double moved = 0;
  double highest = 0;
  double value_moved = 0;
  for (int key = first; key <= row; ++key) {
    const float* k = in.k.view.row(key) + channel;
    const float* v = in.v.view.row(key) + channel;
    double sum = 0;
    double key_moved = 0;
    for (int d = 0; d < shape.head_dim; ++d) {
      key_moved += std::fabs(q[d]) * half_step(k, d);
      sum += std::fabs(q[d]) * (std::fabs(k[d]) + half_step(k, d));
      value_moved = std::max(value_moved, half_step(v, d));
      highest = std::max(highest, std::fabs(double{v[d]}) + half_step(v, d));
    }
    product = std::max(product, sum);
    moved = std::max(moved, key_moved);
  }
  const double scale = 1.3 / std::sqrt(shape.head_dim);
  const double score = scale * (moved + product * (shape.head_dim + 8) * 0x1p-22) +
                       (shape.softcap > 0 ? shape.softcap * 0x1p-21 : 0);
  const double weights = row > first ? std::expm1(2 * score) : 0;  // a lone key weighs 1
  return value_moved + highest * (weights + (row - first + 100) * 0x1p-22);
}

TEST_P(QuantisedCache, StaysWithinHalfAStepOfFloat32) {
  Random random(43);
  Bench ref("ref");
  const Shape shapes[] = {{CacheDtype::q8_0, 6, 2, 64, 4, 0, 0.0F},
                          {CacheDtype::q8_0, 4, 4, 96, 1, 40, 0.0F},
                          {CacheDtype::q8_0, 2, 1, 256, 4, 0, 20.0F}};
  double largest_share = 0;
  for (const Shape& shape : shapes) {
    const Inputs in(shape, 120, random);
    Sequence sequence(shape.cache(), 120, random);
    Matrix out(120, in.q.view.cols);
    step(bench_, shape, sequence, in, 0, 120, out);
    Shape exact = shape;
    exact.dtype = CacheDtype::f32;
    Sequence unrounded(exact.cache(), 120, random);
    Matrix expected(120, in.q.view.cols);
    step(ref, exact, unrounded, in, 0, 120, expected);
    expect_within(
        shape, out, expected, [&](int r, int head) { return tolerance(shape, in, r, head); },
        largest_share);
    if (HasFatalFailure()) return;
  }
  // A bound that nothing comes near would prove nothing.
  EXPECT_GT(largest_share, 0.9);
}

INSTANTIATE_TEST_SUITE_P(Kernels, QuantisedCache, class_sets, set_name);

}  // namespace
}  // namespace baton::kernels
