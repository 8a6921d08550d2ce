// Random inputs and small builders for the kernel contract tests.
#pragma once

#include <bit>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "baton/kernels/kernels.h"
#include "baton/tensor/buffer.h"

namespace baton::kernels {

using tensor::CacheDtype;
using tensor::DType;

inline constexpr DType all_dtypes[] = {DType::f32,  DType::f16,  DType::bf16, DType::q4_0,
                                       DType::q4_1, DType::q5_0, DType::q5_1, DType::q8_0,
                                       DType::q4_k, DType::q5_k, DType::q6_k};

inline constexpr CacheDtype all_cache_dtypes[] = {CacheDtype::bf16, CacheDtype::f32,
                                                  CacheDtype::q8_0};

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}

  std::uint64_t bits() { return engine_(); }
  int below(int n) { return static_cast<int>(engine_() % static_cast<std::uint64_t>(n)); }
  float normal(float deviation = 1.0F) { return deviation * normal_(engine_); }

  std::vector<float> vector(std::size_t n, float deviation = 1.0F) {
    std::vector<float> values(n);
    for (float& v : values) v = normal(deviation);
    return values;
  }

 private:
  std::mt19937_64 engine_;
  std::normal_distribution<float> normal_;
};

/// A row-major matrix that owns its values; rows are 3 floats apart to catch a wrong stride.
struct Matrix {
  Matrix(int rows, int cols) : values(static_cast<std::size_t>(rows) * (cols + 3)) {
    view = {values.data(), rows, cols, cols + 3};
  }
  Matrix(int rows, int cols, Random& random, float deviation = 1.0F) : Matrix(rows, cols) {
    for (float& v : values) v = random.normal(deviation);
  }
  Matrix(const Matrix& other) : values(other.values), view(other.view) {
    view.data = values.data();
  }
  Matrix& operator=(const Matrix&) = delete;

  std::vector<float> values;
  Rows view;
};

/// The bits of rows [begin, begin + count).
inline std::vector<std::uint32_t> bits(const Matrix& m, int begin = 0, int count = -1) {
  std::vector<std::uint32_t> out;
  for (int r = begin; r < (count < 0 ? m.view.rows : begin + count); ++r) {
    for (int c = 0; c < m.view.cols; ++c) {
      out.push_back(std::bit_cast<std::uint32_t>(m.view.row(r)[c]));
    }
  }
  return out;
}

struct Weight {
  DType dtype;
  int outputs;
  int inputs;
  std::vector<std::byte> bytes;

  WeightView view() const { return {dtype, outputs, inputs, bytes.data()}; }
  std::vector<float> values() const {
    std::vector<float> out(static_cast<std::size_t>(outputs) * inputs);
    dequantise(dtype, bytes.data(), out.size(), out.data());
    return out;
  }
};

/// Offsets of the half-precision scales in a block of the type.
inline std::vector<std::size_t> scale_offsets(DType dtype) {
  switch (dtype) {
    case DType::q4_0:
    case DType::q5_0:
    case DType::q8_0:
      return {0};
    case DType::q4_1:
    case DType::q5_1:
    case DType::q4_k:
    case DType::q5_k:
      return {0, 2};
    case DType::q6_k:
      return {208};
    default:
      return {};
  }
}

/// Random weights of every bit pattern, with scales of about 2^-6. Halves and floats are normal
/// numbers; one bf16 in thirty is a denormal.
inline Weight random_weight(DType dtype, int outputs, int inputs, Random& random) {
  Weight w{dtype, outputs, inputs, {}};
  w.bytes.resize(tensor::row_bytes(dtype, static_cast<std::size_t>(inputs)) * outputs);
  const std::size_t block = tensor::info(dtype).block_bytes;
  const auto half = [&random] {
    return static_cast<std::uint16_t>((random.bits() & 0x83ffU) |
                                      static_cast<std::uint32_t>(7 + random.below(4)) << 10);
  };
  for (std::byte& b : w.bytes) b = static_cast<std::byte>(random.bits());
  for (std::size_t at = 0; at < w.bytes.size(); at += block) {
    if (dtype == DType::f32) {
      const float value = random.normal(0.1F);
      std::memcpy(&w.bytes[at], &value, sizeof value);
    } else if (dtype == DType::bf16) {
      const float value = random.below(30) == 0 ? 0x1p-128F : random.normal(0.1F);
      const auto upper = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16);
      std::memcpy(&w.bytes[at], &upper, sizeof upper);
    } else if (dtype == DType::f16) {
      const std::uint16_t value = half();
      std::memcpy(&w.bytes[at], &value, sizeof value);
    }
    for (const std::size_t offset : scale_offsets(dtype)) {
      const std::uint16_t value = half();
      std::memcpy(&w.bytes[at + offset], &value, sizeof value);
    }
  }
  return w;
}

/// A pool and a set; `kernels` is null when the processor has not got the set.
struct Bench {
  explicit Bench(std::string_view set, int threads = 1) : pool(threads) {
    Result<std::unique_ptr<Kernels>> made = make_kernels(set, pool);
    if (made.has_value()) kernels = std::move(*made);
  }
  ThreadPool pool;
  std::unique_ptr<Kernels> kernels;
};

inline Matrix linear(Bench& bench, const Weight& weight, std::span<const float> bias,
                     const Matrix& x) {
  tensor::Buffer packed(bench.kernels->packed_bytes(weight.view()));
  bench.kernels->pack(weight.view(), packed.data());
  Matrix y(x.view.rows, weight.outputs);
  bench.kernels->linear({weight.dtype, weight.outputs, weight.inputs, packed.data()}, bias, x.view,
                        y.view);
  return y;
}

/// The scalar definition of a set's class.
inline std::string_view definition_of(std::string_view set) {
  return set.ends_with("_tiles") ? "spec_tiles" : "spec";
}

/// The sets that must equal their class's definition. Tests of a set that this processor lacks say
/// so.
class EverySet : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (bench_.kernels == nullptr) {
      GTEST_SKIP() << "this processor cannot run the set " << GetParam();
    }
  }
  Bench bench_{GetParam()};
  Bench spec_{definition_of(GetParam())};
};

inline const auto fast_sets = testing::Values("avx2", "avx512", "avx512fma", "amx", "amx_tiles");
inline const auto class_sets =
    testing::Values("spec", "spec_tiles", "avx2", "avx512", "avx512fma", "amx", "amx_tiles");

inline std::string set_name(const testing::TestParamInfo<const char*>& info) { return info.param; }

}  // namespace baton::kernels
