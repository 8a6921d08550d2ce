// The set "avx2": AVX2, FMA and F16C. A vector of 16 lanes is a pair of registers.
//
// The shared sources are included into a namespace of this target, after every header, so that no
// inline function of a header is compiled for an instruction set that the processor may lack.
#include <bit>
#include <cstring>
#include <limits>

#include <immintrin.h>

#include "cpu/cpu.h"
#include "kv_cache.h"
#include "lanes16/constants.h"
#include "lanes16/ops.h"

#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")

namespace baton::kernels::avx2 {
namespace {

// Sixteen registers, two a vector: the sums of 2 x 1 integer rows take 8 to 12, those of 4 x 1
// float rows 8.
constexpr int block_rows = 12;
constexpr int tile_rows = 2;
constexpr int float_tile_rows = 4;
constexpr int tile_panels = 1;
constexpr int few_rows = 2;
constexpr int few_float_rows = 1;
constexpr int few_rows_panels = 2;
constexpr int tile_queries = 6;
constexpr int tile_vectors = 1;

// Each source uses the ones before it.
// clang-format off
#include "cpu/vector_avx2.inc"
#include "cpu/math.inc"
#include "cpu/rows.inc"
#include "cpu/quantise.inc"
#include "cpu/integer_linear.inc"
#include "cpu/float_linear.inc"
#include "cpu/linear.inc"
#include "cpu/attention_products.inc"
#include "cpu/attention_tile.inc"
#include "cpu/attention.inc"
#include "cpu/table.inc"
// clang-format on

constexpr Lanes16Ops table = make_table<false>("avx2");

}  // namespace
}  // namespace baton::kernels::avx2

#pragma GCC pop_options

namespace baton::kernels {

const Lanes16Ops& avx2_ops() { return avx2::table; }

bool has_avx2() {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("f16c");
}

}  // namespace baton::kernels
