// The sets "avx512" and "avx512fma": AVX-512 F, BW, DQ, VL with VNNI and BF16. They differ in what
// multiplies pairs of bf16, of weights and of the cache: dot products, or float steps. "amx" and
// "amx_tiles" are the second with tiles for many rows of integers, and for bf16 weights.
//
// The shared sources are included into a namespace of this target, after every header, so that no
// inline function of a header is compiled for an instruction set that the processor may lack.
#include <bit>
#include <cstring>
#include <limits>

#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cpu/cpu.h"
#include "kv_cache.h"
#include "lanes16/constants.h"
#include "lanes16/ops.h"

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512bf16,avx2,fma,f16c")

namespace baton::kernels::avx512 {
namespace {

// Rows of a tile: 12 x 1 integer and as many float sums, or 12 x 2 float sums, fill 24 of the 32
// registers.
constexpr int block_rows = 12;
constexpr int tile_rows = 12;
constexpr int float_tile_rows = 12;
constexpr int tile_panels = 2;
// Up to 8 rows keep the 8 vectors of a group, unpacked, in registers too.
constexpr int few_rows = 8;
constexpr int few_float_rows = 4;
constexpr int few_rows_panels = 4;
// Queries that share loaded vectors of keys or values: 6 x 4 accumulators.
constexpr int tile_queries = 6;
constexpr int tile_vectors = 4;

// Each source uses the ones before it.
// clang-format off
#include "cpu/vector_avx512.inc"
#include "cpu/math.inc"
#include "cpu/rows.inc"
#include "cpu/quantise.inc"
#include "cpu/integer_linear.inc"
#include "cpu/tile_registers.inc"
#include "cpu/tiles.inc"
#include "cpu/float_linear.inc"
#include "cpu/linear.inc"
#include "cpu/bf16_tiles.inc"
#include "cpu/attention_products.inc"
#include "cpu/attention_tile.inc"
#include "cpu/attention.inc"
#include "cpu/table.inc"
// clang-format on

constexpr Lanes16Ops dot_table = make_table<true>("avx512");
constexpr Lanes16Ops fma_table = make_table<false>("avx512fma");
constexpr Lanes16Ops amx_table = [] {
  Lanes16Ops ops = make_table<false, AmxTiles>("amx");
  ops.block_rows = amx_rows;
  return ops;
}();
constexpr Lanes16Ops amx_tiles_table = [] {
  Lanes16Ops ops = amx_table;
  ops.name = "amx_tiles";
  ops.numerics_class = tiles16_class;
  ops.bf16_inputs = Bf16Inputs::tiles;
  ops.round_apart = round_together;
  ops.linear = linear_in_tiles;
  return ops;
}();

}  // namespace
}  // namespace baton::kernels::avx512

#pragma GCC pop_options

namespace baton::kernels {

const Lanes16Ops& avx512_ops() { return avx512::dot_table; }
const Lanes16Ops& avx512fma_ops() { return avx512::fma_table; }
const Lanes16Ops& amx_ops() { return avx512::amx_table; }
const Lanes16Ops& amx_tiles_ops() { return avx512::amx_tiles_table; }

// Cores of AMD start one or two in a cycle. On Intel's server cores one starts every second cycle,
// measured on Emerald Rapids, and four float steps in that time.
bool has_fast_bf16_dot() {
  __builtin_cpu_init();
  return __builtin_cpu_is("amd");
}

// The system has to be asked for the tile registers, once for all threads of the process.
bool has_amx() {
  static const bool granted = [] {
    constexpr int request_permission = 0x1023;  // ARCH_REQ_XCOMP_PERM
    constexpr int tile_data = 18;               // XFEATURE_XTILEDATA
    __builtin_cpu_init();
    return has_avx512() && __builtin_cpu_supports("amx-tile") &&
           __builtin_cpu_supports("amx-int8") && __builtin_cpu_supports("amx-bf16") &&
           syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
  }();
  return granted;
}

bool has_avx512() {
  __builtin_cpu_init();
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bf16");
}

}  // namespace baton::kernels
