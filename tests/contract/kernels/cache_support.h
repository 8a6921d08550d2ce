// Sequences in a paged cache for the attention tests.
#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>

#include "support.h"

namespace baton::kernels {

/// Bytes of 0xff: a NaN in bf16, in f32 and in the scales of q8_0.
inline constexpr int nan_byte = 0xff;

/// One sequence's blocks, scattered over an arena that holds NaNs until it is written.
struct Sequence {
  Sequence(const CacheGeometry& cache, int length, Random& random)
      : geometry(cache), positions(length) {
    const int block_positions = cache.block_units * tensor::unit_positions;
    const int count = (length + block_positions - 1) / block_positions;
    const std::size_t bytes = cache.unit.unit_bytes() * cache.block_units;
    k = tensor::Buffer(bytes * count);
    v = tensor::Buffer(bytes * count);
    std::memset(k.data(), nan_byte, k.size());
    std::memset(v.data(), nan_byte, v.size());
    std::vector<int> places(static_cast<std::size_t>(count));
    std::iota(places.begin(), places.end(), 0);
    for (std::size_t i = places.size(); i > 1; --i) {
      std::swap(places[i - 1], places[static_cast<std::size_t>(random.below(static_cast<int>(i)))]);
    }
    for (const int place : places) {
      k_blocks.push_back(k.data() + static_cast<std::size_t>(place) * bytes);
      v_blocks.push_back(v.data() + static_cast<std::size_t>(place) * bytes);
    }
  }
  Sequence(Sequence&&) = default;

  RowSpan span(int row, int count, std::int64_t first) const {
    return {row, count, first, {k_blocks, v_blocks}};
  }

  std::byte* slot(std::vector<std::byte*>& blocks, int position) {
    const int unit = position / tensor::unit_positions;
    return blocks[static_cast<std::size_t>(unit / geometry.block_units)] +
           static_cast<std::size_t>(unit % geometry.block_units) * geometry.unit.unit_bytes();
  }

  /// Makes the cached row a NaN in every value, as memory that nobody wrote could be.
  void poison(int position) {
    const tensor::UnitLayout& unit = geometry.unit;
    const int at = position % tensor::unit_positions;
    for (int head = 0; head < unit.kv_heads; ++head) {
      const std::size_t offset = static_cast<std::size_t>(head) * unit.head_bytes();
      for (int d = 0; d < unit.head_dim; ++d) {
        const std::size_t size = unit.element_size();
        std::memset(slot(k_blocks, position) + offset + unit.k_index(at, d) * size, nan_byte, size);
        std::memset(slot(v_blocks, position) + offset + unit.v_index(at, d) * size, nan_byte, size);
      }
      const std::size_t scales = offset + unit.element_bytes();
      for (int d = 0; d < unit.scales_per_position() * tensor::scale_channels; ++d) {
        std::memset(slot(k_blocks, position) + scales + unit.k_scale_index(at, d) * 2, nan_byte, 2);
        std::memset(slot(v_blocks, position) + scales + unit.v_scale_index(at, d) * 2, nan_byte, 2);
      }
    }
  }

  CacheGeometry geometry;
  int positions;
  tensor::Buffer k;
  tensor::Buffer v;
  std::vector<std::byte*> k_blocks;
  std::vector<std::byte*> v_blocks;
};

struct Shape {
  CacheDtype dtype = CacheDtype::bf16;
  int heads = 1;
  int kv_heads = 1;
  int head_dim = 64;
  int block_units = 1;
  int window = 0;
  float softcap = 0;

  CacheGeometry cache() const { return {{dtype, kv_heads, head_dim}, block_units}; }
};

/// The shape with heads that its cache can hold.
inline Shape fitted(Shape shape) {
  constexpr int channels = tensor::scale_channels;
  if (shape.cache().unit.has_scales()) {
    shape.head_dim = (shape.head_dim + channels - 1) / channels * channels;
  }
  return shape;
}

inline std::ostream& operator<<(std::ostream& out, const Shape& s) {
  return out << name(s.dtype) << " heads " << s.heads << '/' << s.kv_heads << " dim " << s.head_dim
             << " block_units " << s.block_units << " window " << s.window << " cap " << s.softcap;
}

/// Random q, k and v of `length` positions; scores of about one.
struct Inputs {
  Inputs(const Shape& shape, int length, Random& random)
      : q(length, shape.heads * shape.head_dim, random),
        k(length, shape.kv_heads * shape.head_dim, random),
        v(length, shape.kv_heads * shape.head_dim, random) {}
  Matrix q;
  Matrix k;
  Matrix v;
};

/// Rows [begin, begin + count) of a matrix.
inline Rows part(const Matrix& m, int begin, int count) {
  return {m.view.row(begin), count, m.view.cols, m.view.stride};
}

inline void attend(Bench& bench, const Shape& shape, ConstRows q, Rows out,
                   std::span<const RowSpan> spans) {
  AttentionArgs args;
  args.q = q;
  args.out = out;
  args.heads = shape.heads;
  args.scale = 1.3F / std::sqrt(static_cast<float>(shape.head_dim));
  args.window = shape.window;
  args.softcap = shape.softcap;
  args.cache = shape.cache();
  args.spans = spans;
  bench.kernels->attention(args);
}

/// Writes and attends positions [begin, begin + count) of `in` in one step.
inline void step(Bench& bench, const Shape& shape, Sequence& sequence, const Inputs& in, int begin,
                 int count, Matrix& out) {
  const RowSpan span = sequence.span(0, count, begin);
  bench.kernels->write_kv(shape.cache(), part(in.k, begin, count), part(in.v, begin, count),
                          {&span, 1});
  attend(bench, shape, part(in.q, begin, count), part(out, begin, count), {&span, 1});
}

/// Values of every seventh row are within bound(row, head) of what is expected. `largest_share`
/// grows to the largest part of its bound that a distance takes.
template <typename Bound>
void expect_within(const Shape& shape, const Matrix& out, const Matrix& expected,
                   const Bound& bound, double& largest_share) {
  for (int r = 0; r < out.view.rows; r += 7) {
    for (int head = 0; head < shape.heads; ++head) {
      const double most = bound(r, head);
      for (int d = 0; d < shape.head_dim; ++d) {
        const int c = head * shape.head_dim + d;
        const double got = out.view.row(r)[c];
        const double wanted = expected.view.row(r)[c];
        ASSERT_NEAR(got, wanted, most) << shape << " row " << r;
        largest_share = std::max(largest_share, std::fabs(got - wanted) / most);
      }
    }
  }
}

}  // namespace baton::kernels
