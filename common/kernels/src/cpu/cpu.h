// The vector sets of the class lanes16.
#pragma once

#include "lanes16/ops.h"

namespace baton::kernels {

bool has_avx2();
bool has_avx512();

/// To be called only when has_...() says so.
const Lanes16Ops& avx2_ops();
const Lanes16Ops& avx512_ops();

}  // namespace baton::kernels
