// The probe: what every set of a class must answer with the same bits. It runs every operation on
// small fixed inputs that reach what differs between machines: partial vectors, partial units and
// tiles, windows, denormals, signed zeros, values that overflow exp.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include <xxhash.h>

#include "baton/tensor/buffer.h"

#include "sets.h"

namespace baton::kernels {
namespace {

using tensor::Buffer;
using tensor::DType;

/// SplitMix64: fixed for ever, since the digest depends on it.
class Noise {
 public:
  explicit Noise(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    state_ += 0x9e3779b97f4a7c15U;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
  }

  /// Uniform in (-2, 2) with one value in sixteen from the corners of the format.
  float value() {
    constexpr std::array corners = {0.0F,      -0.0F,      0x1p-130F, -0x1p-140F,
                                    0x1p-126F, -0x1p-120F, 100.0F,    -95.0F};
    const std::uint64_t bits = next();
    if (bits % 16 == 0) return corners[(bits >> 8) % corners.size()];
    return static_cast<float>(static_cast<std::int64_t>(bits >> 40) - (1 << 23)) * 0x1p-22F;
  }

  /// A positive or negative normal half near 2^-6.
  std::uint16_t half_scale() {
    const std::uint64_t bits = next();
    return static_cast<std::uint16_t>((bits & 0x83ffU) | (8 + (bits >> 16) % 3) << 10);
  }

 private:
  std::uint64_t state_;
};

/// A row-major matrix of noise.
struct Matrix {
  Matrix(int rows, int cols, std::uint64_t seed) : values(static_cast<std::size_t>(rows) * cols) {
    Noise noise(seed);
    for (float& v : values) v = noise.value();
    view = {values.data(), rows, cols, cols};
  }
  std::vector<float> values;
  Rows view;
};

class Probe {
 public:
  explicit Probe(Kernels& kernels) : kernels_(kernels) {}

  Digest128 run() {
    for (const DType dtype :
         {DType::f32, DType::f16, DType::bf16, DType::q4_0, DType::q4_1, DType::q5_0, DType::q5_1,
          DType::q8_0, DType::q4_k, DType::q5_k, DType::q6_k}) {
      const int block = static_cast<int>(tensor::info(dtype).block_elements);
      // Few rows and many, short rows and such as are longer than what a kernel takes at once.
      linear(dtype, 7, block == 1 ? 77 : block == 32 ? 160 : 256);
      linear(dtype, 14, block == 1 ? 1277 : 1280);
    }
    rows();
    for (const tensor::CacheDtype dtype : {tensor::CacheDtype::bf16, tensor::CacheDtype::f32}) {
      attention(dtype, 64, 0, 0.0F);
      attention(dtype, 10, 70, 30.0F);
    }
    attention(tensor::CacheDtype::q8_0, 64, 0, 0.0F);
    attention(tensor::CacheDtype::q8_0, 96, 70, 30.0F);
    const XXH128_hash_t hash = XXH3_128bits(bytes_.data(), bytes_.size());
    return {hash.high64, hash.low64};
  }

 private:
  void add(const void* data, std::size_t bytes) {
    const auto* begin = static_cast<const std::byte*>(data);
    bytes_.insert(bytes_.end(), begin, begin + bytes);
  }
  void add(const Matrix& m) { add(m.values.data(), m.values.size() * sizeof(float)); }

  static std::vector<std::byte> weights(DType dtype, int outputs, int inputs) {
    std::vector<std::byte> bytes(tensor::row_bytes(dtype, static_cast<std::size_t>(inputs)) *
                                 outputs);
    Noise noise(static_cast<std::uint64_t>(dtype) + 100);
    for (std::byte& b : bytes) b = static_cast<std::byte>(noise.next() >> 24);
    const std::size_t block = tensor::info(dtype).block_bytes;
    const auto put_half = [&](std::size_t at, std::uint16_t half) {
      std::memcpy(bytes.data() + at, &half, sizeof half);
    };
    for (std::size_t at = 0; at < bytes.size(); at += block) {
      const float value = noise.value();
      const auto upper = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16);
      if (dtype == DType::f32) {
        std::memcpy(bytes.data() + at, &value, sizeof value);
      } else if (dtype == DType::bf16) {
        put_half(at, upper);
      } else if (dtype == DType::q6_k) {
        put_half(at + 208, noise.half_scale());
      } else {
        put_half(at, noise.half_scale());
        if (dtype != DType::f16 && dtype != DType::q4_0 && dtype != DType::q5_0 &&
            dtype != DType::q8_0) {
          put_half(at + 2, noise.half_scale());
        }
      }
    }
    return bytes;
  }

  void linear(DType dtype, int row_count, int inputs) {
    constexpr int outputs = 39;
    const std::vector<std::byte> bytes = weights(dtype, outputs, inputs);
    const WeightView view{dtype, outputs, inputs, bytes.data()};
    Buffer packed(kernels_.packed_bytes(view));
    kernels_.pack(view, packed.data());
    const PackedMatrix matrix{dtype, outputs, inputs, packed.data()};

    const Matrix x(row_count, inputs, 1);
    const Matrix bias(1, outputs, 2);
    Matrix y(row_count, outputs, 3);
    kernels_.linear(matrix, bias.values, x.view, y.view);
    add(y);
    constexpr std::array<TokenId, 3> ids = {0, 38, 17};
    Matrix rows_out(3, inputs, 4);
    kernels_.embed(matrix, ids, 1.7F, rows_out.view);
    add(rows_out);
  }

  void rows() {
    const Matrix x(3, 90, 5);
    const Matrix z(3, 90, 6);
    const Matrix weight(1, 90, 7);
    Matrix y(3, 90, 8);
    kernels_.rms_norm(x.view, weight.values, 1e-5F, y.view);
    add(y);
    kernels_.rms_norm(x.view, std::span(weight.values).first(18), 1e-6F, y.view);
    add(y);
    for (const Activation activation : {Activation::silu, Activation::gelu_tanh}) {
      kernels_.gated(activation, x.view, z.view, y.view);
      add(y);
    }
    kernels_.soft_cap(y.view, 30.0F);
    kernels_.add(y.view, z.view);
    add(y);
    for (const bool interleaved : {false, true}) {
      const Matrix cosines(4, 7, 9);
      const Matrix sines(4, 7, 10);
      const RopeTable table{14, 4, interleaved, cosines.values, sines.values};
      constexpr std::array<std::int64_t, 3> positions = {3, 0, 2};
      kernels_.rope(y.view, 18, table, positions);
      add(y);
    }
  }

  /// Two sequences whose second has a prefix; six query heads over two cached heads.
  void attention(tensor::CacheDtype dtype, int head_dim, int window, float softcap) {
    const CacheGeometry cache{{dtype, 2, head_dim}, 2};
    constexpr int block_count = 34;
    const std::size_t block_bytes = cache.unit.unit_bytes() * cache.block_units;
    Buffer k(block_count * block_bytes);
    Buffer v(block_count * block_bytes);
    std::vector<std::byte*> k_blocks;
    std::vector<std::byte*> v_blocks;
    for (int i = 0; i < block_count; ++i) {
      // 5 and 34 have no common factor: the blocks are scattered over the arena.
      const std::size_t place = static_cast<std::size_t>(i * 5 % block_count) * block_bytes;
      k_blocks.push_back(k.data() + place);
      v_blocks.push_back(v.data() + place);
    }
    const KvBlocks blocks{k_blocks, v_blocks};
    constexpr int length = 1035;
    const Matrix k_rows(length, 2 * head_dim, 11);
    std::fill_n(k_rows.view.row(7), head_dim, 0x1p-101F);  // a scale of zero
    const Matrix v_rows(length, 2 * head_dim, 12);
    const RowSpan all{0, length, 0, blocks};
    kernels_.write_kv(cache, k_rows.view, v_rows.view, {&all, 1});
    add(k.data(), k.size());
    add(v.data(), v.size());

    const Matrix q(9, 6 * head_dim, 13);
    Matrix out(9, 6 * head_dim, 14);
    const std::array spans = {RowSpan{0, 4, 1031, blocks}, RowSpan{4, 5, 61, blocks}};
    AttentionArgs args{q.view, out.view, 6, 0.21F, window, softcap, cache, spans};
    kernels_.attention(args);
    add(out);
  }

  Kernels& kernels_;
  std::vector<std::byte> bytes_;
};

}  // namespace

Digest128 run_probe(Kernels& kernels) { return Probe(kernels).run(); }

}  // namespace baton::kernels
