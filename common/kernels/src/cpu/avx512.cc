// The set "avx512": AVX-512 F, BW, DQ, VL with VNNI and BF16.
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

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512bf16,avx2,fma,f16c")

namespace baton::kernels::avx512 {
namespace {

constexpr const char* set = "avx512";

// Tile of a product: rows x panels. 6 x 2 integer and 6 x 2 float accumulators fill 24 of the 32
// registers; two unpacked and two packed weight vectors, a mask and a broadcast take the rest.
constexpr int tile_rows = 6;
constexpr int tile_panels = 2;
constexpr int single_row_panels = 4;
// Queries that share a loaded vector of keys or values: 4 x 4 accumulators.
constexpr int tile_queries = 4;

// Each source uses the ones before it.
// clang-format off
#include "cpu/vector_avx512.inc"
#include "cpu/math.inc"
#include "cpu/rows.inc"
#include "cpu/linear.inc"
#include "cpu/attention.inc"
#include "cpu/table.inc"
// clang-format on

}  // namespace
}  // namespace baton::kernels::avx512

#pragma GCC pop_options

namespace baton::kernels {

const Lanes16Ops& avx512_ops() { return avx512::table; }

bool has_avx512() {
  __builtin_cpu_init();
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bf16");
}

}  // namespace baton::kernels
