// The vector sets of the class lanes16.
#pragma once

#include "lanes16/ops.h"

namespace baton::kernels {

bool has_avx2();
bool has_avx512();
/// AVX-512 and AMX's tiles of integers and of bf16.
bool has_amx();
/// Whether a dot product of bf16 pairs is faster than the two float steps that it is made of.
bool has_fast_bf16_dot();

/// To be called only when has_...() says so.
const Lanes16Ops& avx2_ops();
const Lanes16Ops& avx512_ops();
/// The same with float steps in attention.
const Lanes16Ops& avx512fma_ops();
/// The same with tiles for many rows of integer weights.
const Lanes16Ops& amx_ops();
/// The class tiles16: the same with tiles for bf16 weights.
const Lanes16Ops& amx_tiles_ops();

}  // namespace baton::kernels
