#include <cmath>

#include "cache_support.h"

namespace baton::kernels {
namespace {

Shape random_shape(Random& random) {
  constexpr int head_dims[] = {64, 80, 256, 96, 128, 10, 2};
  constexpr int heads[][2] = {{9, 3}, {4, 1}, {2, 2}, {32, 1}, {6, 3}};
  constexpr int windows[] = {0, 0, 1, 16, 70, 130};
  Shape s;
  s.dtype = all_cache_dtypes[random.below(3)];
  const auto& pair = heads[random.below(5)];
  s.heads = pair[0];
  s.kv_heads = pair[1];
  s.head_dim = head_dims[random.below(7)];
  s.block_units = random.below(2) == 0 ? 1 : 4;
  s.window = windows[random.below(6)];
  s.softcap = random.below(3) == 0 ? 20.0F : 0.0F;
  return fitted(s);
}

/// Every row's output bits, positions written and attended in chunks of the given sizes.
std::vector<std::uint32_t> in_chunks(Bench& bench, const Shape& shape, const Inputs& in,
                                     const std::vector<int>& chunks) {
  Random random(99);
  Sequence sequence(shape.cache(), in.q.view.rows, random);
  Matrix out(in.q.view.rows, in.q.view.cols);
  int begin = 0;
  for (const int count : chunks) {
    step(bench, shape, sequence, in, begin, count, out);
    begin += count;
  }
  EXPECT_EQ(begin, in.q.view.rows);
  return bits(out);
}

class AttentionEquality : public EverySet {};

TEST_P(AttentionEquality, RandomShapesEqualSpec) {
  Random random(21);
  for (int round = 0; round < 60; ++round) {
    const Shape shape = random_shape(random);
    const int prefix = random.below(200);
    const int count = 1 + random.below(20);
    const Inputs in(shape, prefix + count, random);
    std::vector<int> chunks = {count};
    if (prefix > 0) chunks.insert(chunks.begin(), prefix);
    ASSERT_EQ(in_chunks(bench_, shape, in, chunks), in_chunks(spec_, shape, in, chunks))
        << shape << " prefix " << prefix << " count " << count;
  }
}

TEST_P(AttentionEquality, LongCachesThatCrossSegmentsEqualSpec) {
  Random random(22);
  for (const CacheDtype dtype : all_cache_dtypes) {
    for (const int window : {0, 1100}) {
      const Shape shape{dtype, 6, 2, 64, 4, window, 0.0F};
      const int length = 2100;
      const Inputs in(shape, length, random);
      Sequence sequence(shape.cache(), length, random);
      const RowSpan all = sequence.span(0, length, 0);
      bench_.kernels->write_kv(shape.cache(), in.k.view, in.v.view, {&all, 1});
      for (const int begin : {1020, 2043, 2090}) {
        Matrix out(10, in.q.view.cols);
        Matrix expected(10, in.q.view.cols);
        const RowSpan span = sequence.span(0, 10, begin);
        attend(bench_, shape, part(in.q, begin, 10), out.view, {&span, 1});
        attend(spec_, shape, part(in.q, begin, 10), expected.view, {&span, 1});
        ASSERT_EQ(bits(out), bits(expected)) << shape << " from " << begin;
      }
    }
  }
}

/// Blocks of as many queries as a task takes, whose last group is short, on every head size that
/// chooses other code: within and beyond what is unpacked, with and without a partial vector.
TEST_P(AttentionEquality, ManyRowsAtOnceEqualSpec) {
  Random random(32);
  for (const CacheDtype dtype : all_cache_dtypes) {
    for (const int head_dim : {64, 74, 256, 1024}) {
      for (const int window : {0, 90}) {
        const Shape shape = fitted({dtype, 3, 1, head_dim, 4, window, window > 0 ? 20.0F : 0.0F});
        const int length = head_dim > 256 ? 40 : head_dim == 64 ? 300 : 130;
        const Inputs in(shape, length, random);
        ASSERT_EQ(in_chunks(bench_, shape, in, {length}), in_chunks(spec_, shape, in, {length}))
            << shape;
      }
    }
  }
}

TEST_P(AttentionEquality, TinyAndHugeValuesEqualSpec) {
  Random random(23);
  for (int round = 0; round < 10; ++round) {
    Shape shape = random_shape(random);
    Inputs in(shape, 90, random);
    for (Matrix* m : {&in.q, &in.k, &in.v}) {
      for (float& x : m->values) {
        const int kind = random.below(12);
        x *= kind == 0 ? 0x1p-127F : kind == 1 ? 0x1p-70F : kind == 2 ? 30.0F : 1.0F;
      }
    }
    ASSERT_EQ(in_chunks(bench_, shape, in, {80, 10}), in_chunks(spec_, shape, in, {80, 10}))
        << shape;
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, AttentionEquality, fast_sets, set_name);

class Attention : public EverySet {};

TEST_P(Attention, ChunkingChangesNoBit) {
  Random random(24);
  for (int round = 0; round < 8; ++round) {
    const Shape shape = random_shape(random);
    const Inputs in(shape, 100, random);
    const auto whole = in_chunks(bench_, shape, in, {100});
    ASSERT_EQ(in_chunks(bench_, shape, in, std::vector<int>(100, 1)), whole) << shape;
    ASSERT_EQ(in_chunks(bench_, shape, in, {17, 47, 1, 35}), whole) << shape;
  }
}

void expect_batch_mates_change_nothing(Bench& bench, CacheDtype dtype) {
  Random random(25);
  const Shape shape{dtype, 9, 3, 64, 4, 0, 0.0F};
  const int lengths[] = {70, 3, 150};
  std::vector<Inputs> in;
  std::vector<Sequence> sequences;
  std::vector<RowSpan> spans;
  std::vector<std::uint32_t> alone;
  Matrix q(12, 9 * 64);
  for (const int length : lengths) {
    in.emplace_back(shape, length, random);
    sequences.emplace_back(shape.cache(), length, random);
  }
  int row = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    const int count = lengths[i] == 3 ? 1 : lengths[i] == 70 ? 8 : 3;
    const int first = lengths[i] - count;
    Matrix out(lengths[i], q.view.cols);
    step(bench, shape, sequences[i], in[i], 0, lengths[i], out);
    const auto own = bits(out, first, count);
    alone.insert(alone.end(), own.begin(), own.end());
    for (int r = 0; r < count; ++r) {
      std::copy_n(in[i].q.view.row(first + r), q.view.cols, q.view.row(row + r));
    }
    spans.push_back(sequences[i].span(row, count, first));
    row += count;
  }
  Matrix together(12, q.view.cols);
  attend(bench, shape, q.view, together.view, spans);
  EXPECT_EQ(bits(together), alone) << shape;
}

TEST_P(Attention, BatchMatesChangeNoBit) {
  for (const CacheDtype dtype : all_cache_dtypes) expect_batch_mates_change_nothing(bench_, dtype);
}

TEST_P(Attention, TheNumberOfThreadsChangesNoBit) {
  Random random(26);
  for (const int window : {0, 1500}) {
    const CacheDtype dtype = window == 0 ? CacheDtype::bf16 : CacheDtype::q8_0;
    const Shape shape{dtype, 3, 1, 64, 4, window, 0.0F};
    const int length = 3300;
    const Inputs in(shape, length, random);
    Sequence sequence(shape.cache(), length, random);
    const RowSpan all = sequence.span(0, length, 0);
    bench_.kernels->write_kv(shape.cache(), in.k.view, in.v.view, {&all, 1});
    for (const int count : {1, 5}) {
      const RowSpan span = sequence.span(0, count, length - count);
      Matrix expected(count, in.q.view.cols);
      attend(bench_, shape, part(in.q, length - count, count), expected.view, {&span, 1});
      for (int threads = 2; threads <= 4; ++threads) {
        Bench other(GetParam(), threads);
        Matrix out(count, in.q.view.cols);
        attend(other, shape, part(in.q, length - count, count), out.view, {&span, 1});
        ASSERT_EQ(bits(out), bits(expected)) << threads << " threads, window " << window;
      }
    }
  }
}

/// More threads are given smaller blocks of rows, so that other queries share a tile.
TEST_P(Attention, TheNumberOfThreadsChangesNoBitOfAPrompt) {
  Random random(33);
  for (const int window : {0, 70}) {
    const CacheDtype dtype = window == 0 ? CacheDtype::q8_0 : CacheDtype::bf16;
    const Shape shape{dtype, 9, 3, 64, 4, window, 0.0F};
    const int length = 150;
    const Inputs in(shape, length, random);
    const auto expected = in_chunks(bench_, shape, in, {length});
    for (int threads = 2; threads <= 4; ++threads) {
      Bench other(GetParam(), threads);
      ASSERT_EQ(in_chunks(other, shape, in, {length}), expected)
          << threads << " threads, window " << window;
    }
  }
}

TEST_P(Attention, GarbageInUnseenRowsNeverLeaks) {
  Random random(27);
  for (const CacheDtype dtype : all_cache_dtypes) {
    for (const int window : {0, 40}) {
      const Shape shape = fitted({dtype, 4, 2, 80, 1, window, 0.0F});
      const int length = 150;
      const Inputs in(shape, length, random);
      Sequence sequence(shape.cache(), length, random);
      Matrix whole(length, in.q.view.cols);
      step(bench_, shape, sequence, in, 0, length, whole);
      const int begin = 100;
      const int count = 7;
      for (int p = 0; p < length; ++p) {
        if (p >= begin + count || (window > 0 && p <= begin - window)) sequence.poison(p);
      }
      const RowSpan span = sequence.span(0, count, begin);
      Matrix out(count, in.q.view.cols);
      attend(bench_, shape, part(in.q, begin, count), out.view, {&span, 1});
      ASSERT_EQ(bits(out), bits(whole, begin, count)) << shape;
    }
  }
}

TEST_P(Attention, BlocksBeforeTheWindowMayBeGone) {
  Random random(28);
  for (const int block_units : {1, 4}) {
    const CacheDtype dtype = block_units == 1 ? CacheDtype::q8_0 : CacheDtype::bf16;
    const Shape shape{dtype, 2, 1, 64, block_units, 100, 0.0F};
    const int length = 1300;
    const Inputs in(shape, length, random);
    Sequence sequence(shape.cache(), length, random);
    Matrix whole(length, in.q.view.cols);
    step(bench_, shape, sequence, in, 0, length, whole);
    const int begin = 1290;
    const int block_positions = block_units * tensor::unit_positions;
    for (int block = 0; (block + 1) * block_positions <= begin - 99; ++block) {
      sequence.k_blocks[static_cast<std::size_t>(block)] = nullptr;
      sequence.v_blocks[static_cast<std::size_t>(block)] = nullptr;
    }
    const RowSpan span = sequence.span(0, 10, begin);
    Matrix out(10, in.q.view.cols);
    attend(bench_, shape, part(in.q, begin, 10), out.view, {&span, 1});
    ASSERT_EQ(bits(out), bits(whole, begin, 10)) << shape;
  }
}

TEST_P(Attention, TheFirstWriteIntoAUnitClearsIt) {
  Random random(29);
  for (const CacheDtype dtype : all_cache_dtypes) {
    const Shape shape = fitted({dtype, 2, 2, 10, 1, 0, 0.0F});
    const Inputs in(shape, 35, random);
    Sequence sequence(shape.cache(), 48, random);
    Matrix out(35, in.q.view.cols);
    step(bench_, shape, sequence, in, 0, 35, out);
    const tensor::UnitLayout unit = shape.cache().unit;
    for (int p = 35; p < 48; ++p) {
      for (int d = 0; d < shape.head_dim; ++d) {
        std::size_t k = unit.head_bytes() + unit.k_index(p % 16, d) * unit.element_size();
        std::size_t v = unit.head_bytes() + unit.v_index(p % 16, d) * unit.element_size();
        ASSERT_EQ(sequence.slot(sequence.k_blocks, p)[k], std::byte{0});
        ASSERT_EQ(sequence.slot(sequence.v_blocks, p)[v], std::byte{0});
        if (!unit.has_scales()) continue;
        k = unit.head_bytes() + unit.element_bytes() + unit.k_scale_index(p % 16, d) * 2;
        v = unit.head_bytes() + unit.element_bytes() + unit.v_scale_index(p % 16, d) * 2;
        ASSERT_EQ(sequence.slot(sequence.k_blocks, p)[k + 1], std::byte{0});
        ASSERT_EQ(sequence.slot(sequence.v_blocks, p)[v + 1], std::byte{0});
      }
    }
  }
}

/// Of two keys, with scores of 0 and x (in powers of 2) and values of 0 and 1, the output is
/// 2^x / (1 + 2^x).
TEST_P(Attention, WeightsArePowersOf2WithinAFewUlps) {
  constexpr float scale = 0x1.62e43p-1F;  // times log2 e it is rounded to 1
  constexpr int heads = 64;
  Random random(33);
  const Shape shape{CacheDtype::f32, heads, 1, 2, 1, 0, 0.0F};
  for (int round = 0; round < 20; ++round) {
    Inputs in(shape, 2, random);
    for (Matrix* m : {&in.q, &in.k, &in.v}) std::fill(m->values.begin(), m->values.end(), 0.0F);
    in.k.view.row(1)[0] = in.v.view.row(1)[0] = 1;
    for (int head = 0; head < heads; ++head) {
      in.q.view.row(1)[2 * head] = -static_cast<float>(random.below(24 << 20)) * 0x1p-20F;
    }
    Sequence sequence(shape.cache(), 2, random);
    const RowSpan span = sequence.span(0, 2, 0);
    bench_.kernels->write_kv(shape.cache(), in.k.view, in.v.view, {&span, 1});
    Matrix out(2, in.q.view.cols);
    bench_.kernels->attention(
        {in.q.view, out.view, heads, scale, 0, 0.0F, shape.cache(), {&span, 1}});
    for (int head = 0; head < heads; ++head) {
      const double p = std::exp2(static_cast<double>(in.q.view.row(1)[2 * head]));
      const double error = out.view.row(1)[2 * head] / (p / (1 + p)) - 1;
      // Three roundings after the power's 2.13 units of the last place.
      EXPECT_LT(std::fabs(error), 4.2 * 0x1p-23) << in.q.view.row(1)[2 * head];
    }
  }
}

/// The last query sees every key, so keys in reverse order are the same sum in another order; and
/// so are the dimensions of q and k in reverse order, for every query.
TEST_P(Attention, AReorderedSumIsSeenInTheBits) {
  Random random(30);
  for (const CacheDtype dtype : all_cache_dtypes) {
    const Shape shape{dtype, 1, 1, 64, 1, 0, 0.0F};
    const int length = 300;
    const Inputs in(shape, length, random);
    Inputs keys = in;
    Inputs dims = in;
    for (int p = 0; p < length; ++p) {
      std::copy_n(in.k.view.row(length - 1 - p), 64, keys.k.view.row(p));
      std::copy_n(in.v.view.row(length - 1 - p), 64, keys.v.view.row(p));
      for (int d = 0; d < 64; ++d) {
        // Pairs stay together: their order is another rule.
        dims.q.view.row(p)[d] = in.q.view.row(p)[(63 - d) ^ 1];
        dims.k.view.row(p)[d] = in.k.view.row(p)[(63 - d) ^ 1];
      }
    }
    const auto expected = in_chunks(bench_, shape, in, {length});
    const auto last = [](const std::vector<std::uint32_t>& all) {
      return std::vector<std::uint32_t>(all.end() - 64, all.end());
    };
    EXPECT_NE(last(in_chunks(bench_, shape, keys, {length})), last(expected)) << name(dtype);
    EXPECT_NE(in_chunks(bench_, shape, dims, {length}), expected) << name(dtype);
  }
}

/// A bound on a query's error against plain float32: scores move by at most `score`, so weights by
/// a factor e^(2 score); bf16 rounds the weights once more; then come the sums over n keys.
double tolerance(const Shape& shape, const Inputs& in, int row, int head) {
  const int group = shape.heads / shape.kv_heads;
  const int first = shape.window > 0 ? std::max(0, row - shape.window + 1) : 0;
  const double unit = shape.dtype == CacheDtype::bf16 ? 0x1p-8 : 0;
  double product = 0;
  double highest = 0;
  for (int key = first; key <= row; ++key) {
    double sum = 0;
    for (int d = 0; d < shape.head_dim; ++d) {
      const int at = head / group * shape.head_dim + d;
      sum += std::fabs(in.q.view.row(row)[head * shape.head_dim + d] * in.k.view.row(key)[at]);
      highest = std::max(highest, std::fabs(double{in.v.view.row(key)[at]}));
    }
    product = std::max(product, sum);
  }
  const double scale = 1.3 / std::sqrt(shape.head_dim);
  const double score = scale * product * 1.01 * (unit + (shape.head_dim + 8) * 0x1p-23) +
                       (shape.softcap > 0 ? shape.softcap * 0x1p-21 : 0);
  return 1.01 * highest * (std::expm1(2 * score) + 2 * unit + (row - first + 100) * 0x1p-22);
}

TEST_P(Attention, StaysWithinTheDerivedDistanceOfRef) {
  Random random(31);
  Bench ref("ref");
  for (int round = 0; round < 10; ++round) {
    const Shape shape = random_shape(random);
    const Inputs in(shape, 120, random);
    Sequence sequence(shape.cache(), 120, random);
    Matrix out(120, in.q.view.cols);
    step(bench_, shape, sequence, in, 0, 120, out);
    Matrix expected(120, in.q.view.cols);
    step(ref, shape, sequence, in, 0, 120, expected);
    double share = 0;
    expect_within(
        shape, out, expected, [&](int r, int head) { return tolerance(shape, in, r, head); },
        share);
    if (HasFatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, Attention, class_sets, set_name);

}  // namespace
}  // namespace baton::kernels
