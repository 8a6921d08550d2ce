// Independent chains of one instruction, long enough to fill the pipelines, and a plain read of a
// buffer that is far larger than the caches.
#include "baton/kernels/limits.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>

#include <immintrin.h>

#include "baton/tensor/buffer.h"

#include "cpu/cpu.h"
#include "lanes16/constants.h"

namespace baton::kernels {
namespace {

constexpr std::size_t memory_bytes = std::size_t{256} << 20;
constexpr int chains = 12;
constexpr int repetitions = 5;
constexpr std::int64_t iterations = 1'500'000;

struct Loop {
  void (*run)() = nullptr;
  double ops_per_instruction = 0;
  std::int64_t instructions = iterations * chains;  ///< of one call
};

// The compiler may neither drop nor merge the chains: each result passes through this.
#define BATON_KEEP(value) asm volatile("" : "+v"(value))

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512vnni,avx512bf16")
namespace avx512 {

void int8() {
  __m512i sums[chains];
  for (__m512i& sum : sums) sum = _mm512_setzero_si512();
  __m512i a = _mm512_set1_epi8(1);
  BATON_KEEP(a);
  for (std::int64_t i = 0; i < iterations; ++i) {
#pragma GCC unroll 12
    for (int c = 0; c < chains; ++c) sums[c] = _mm512_dpbusd_epi32(sums[c], a, a);
  }
  for (__m512i& sum : sums) BATON_KEEP(sum);
}

void bf16() {
  __m512 sums[chains];
  for (__m512& sum : sums) sum = _mm512_setzero_ps();
  __m512i a = _mm512_setzero_si512();
  BATON_KEEP(a);
  for (std::int64_t i = 0; i < iterations; ++i) {
#pragma GCC unroll 12
    for (int c = 0; c < chains; ++c) {
      sums[c] =
          _mm512_dpbf16_ps(sums[c], reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(a));
    }
  }
  for (__m512& sum : sums) BATON_KEEP(sum);
}

void f32() {
  __m512 sums[chains];
  for (__m512& sum : sums) sum = _mm512_setzero_ps();
  __m512 a = _mm512_set1_ps(0.5F);
  BATON_KEEP(a);
  for (std::int64_t i = 0; i < iterations; ++i) {
#pragma GCC unroll 12
    for (int c = 0; c < chains; ++c) sums[c] = _mm512_fmadd_ps(a, a, sums[c]);
  }
  for (__m512& sum : sums) BATON_KEEP(sum);
}

// In the namespace and for the target of this part only.
#include "cpu/tile_registers.inc"

constexpr std::int64_t tile_iterations = iterations / 4;
constexpr int tile_chains = 4;
constexpr Tiles::Shape whole_tiles = {16, 64};

void int8_tiles() {
  const Tiles tiles(whole_tiles);
  for (std::int64_t i = 0; i < tile_iterations; ++i) {
    asm volatile(
        "tdpbssd %tmm6, %tmm4, %tmm0\n\ttdpbssd %tmm7, %tmm4, %tmm1\n\t"
        "tdpbssd %tmm6, %tmm5, %tmm2\n\ttdpbssd %tmm7, %tmm5, %tmm3");
  }
}

void bf16_tiles() {
  const Tiles tiles(whole_tiles);
  for (std::int64_t i = 0; i < tile_iterations; ++i) {
    asm volatile(
        "tdpbf16ps %tmm6, %tmm4, %tmm0\n\ttdpbf16ps %tmm7, %tmm4, %tmm1\n\t"
        "tdpbf16ps %tmm6, %tmm5, %tmm2\n\ttdpbf16ps %tmm7, %tmm5, %tmm3");
  }
}

}  // namespace avx512
#pragma GCC pop_options

#pragma GCC push_options
#pragma GCC target("avx2,fma")
namespace avx2 {

void int8() {
  __m256i sums[chains];
  for (__m256i& sum : sums) sum = _mm256_setzero_si256();
  __m256i a = _mm256_set1_epi8(1);
  const __m256i ones = _mm256_set1_epi16(1);
  for (std::int64_t i = 0; i < iterations; ++i) {
#pragma GCC unroll 12
    for (int c = 0; c < chains; ++c) {
      BATON_KEEP(a);
      sums[c] = _mm256_add_epi32(sums[c], _mm256_madd_epi16(_mm256_maddubs_epi16(a, a), ones));
    }
  }
  for (__m256i& sum : sums) BATON_KEEP(sum);
}

void f32() {
  __m256 sums[chains];
  for (__m256& sum : sums) sum = _mm256_setzero_ps();
  __m256 a = _mm256_set1_ps(0.5F);
  BATON_KEEP(a);
  for (std::int64_t i = 0; i < iterations; ++i) {
#pragma GCC unroll 12
    for (int c = 0; c < chains; ++c) sums[c] = _mm256_fmadd_ps(a, a, sums[c]);
  }
  for (__m256& sum : sums) BATON_KEEP(sum);
}

}  // namespace avx2
#pragma GCC pop_options

void f32_scalar() {
  float sums[chains] = {};
  float a = 0.5F;
  BATON_KEEP(a);
  for (std::int64_t i = 0; i < iterations; ++i) {
#pragma GCC unroll 12
    for (float& sum : sums) sum += a * a;
  }
  for (float& sum : sums) BATON_KEEP(sum);
}

#undef BATON_KEEP

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// The best of some tries: a limit is what was possible.
double best_rate(double work, const std::function<void()>& run) {
  double best = 0;
  for (int i = 0; i < repetitions; ++i) best = std::max(best, work / seconds_of(run));
  return best;
}

double rate_of(ThreadPool& pool, const Loop& loop) {
  const double ops =
      loop.ops_per_instruction * static_cast<double>(loop.instructions) * pool.threads();
  return best_rate(ops, [&] { pool.run(pool.threads(), [&](int) { loop.run(); }); });
}

std::uint64_t sum_of(const std::byte* from, std::size_t bytes) {
  std::uint64_t sums[8] = {};
  const auto* words = reinterpret_cast<const std::uint64_t*>(from);
  for (std::size_t i = 0; i + 8 <= bytes / 8; i += 8) {
    for (std::size_t j = 0; j < 8; ++j) sums[j] += words[i + j];
  }
  std::uint64_t sum = 0;
  for (const std::uint64_t each : sums) sum += each;
  return sum;
}

}  // namespace

double probe_memory(ThreadPool& pool) {
  tensor::Buffer buffer(memory_bytes);
  std::fill_n(buffer.data(), memory_bytes, std::byte{1});
  const auto parts = static_cast<std::size_t>(pool.threads());
  // Whole lines: a part is read as words, and begins where the one before ends.
  const std::size_t part = memory_bytes / parts / 64 * 64;
  std::uint64_t sink = 0;
  return best_rate(static_cast<double>(part * parts), [&] {
    pool.run(pool.threads(), [&](int i) {
      const std::uint64_t sum = sum_of(buffer.data() + static_cast<std::size_t>(i) * part, part);
      __atomic_fetch_add(&sink, sum, __ATOMIC_RELAXED);
    });
  });
}

MachineLimits probe_limits(ThreadPool& pool) {
  MachineLimits out;
  out.memory_bytes = probe_memory(pool);
  if (has_avx512()) {
    out.int8_ops = rate_of(pool, {avx512::int8, 128});
    out.bf16_ops = rate_of(pool, {avx512::bf16, 64});
    out.f32_ops = rate_of(pool, {avx512::f32, 32});
    if (has_amx()) {
      // Sixteen rows by sixteen outputs by sixteen words of four or two products.
      constexpr std::int64_t instructions = avx512::tile_iterations * avx512::tile_chains;
      out.int8_ops = rate_of(pool, {avx512::int8_tiles, 2.0 * 16 * 16 * 64, instructions});
      out.bf16_ops = rate_of(pool, {avx512::bf16_tiles, 2.0 * 16 * 16 * 32, instructions});
    }
  } else if (has_avx2()) {
    out.int8_ops = rate_of(pool, {avx2::int8, 64});
    out.f32_ops = rate_of(pool, {avx2::f32, 16});
    out.bf16_ops = out.f32_ops;
  } else {
    out.f32_ops = rate_of(pool, {f32_scalar, 2});
    out.bf16_ops = out.f32_ops;
    out.int8_ops = out.f32_ops;
  }
  return out;
}

}  // namespace baton::kernels
