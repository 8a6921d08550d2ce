// Angles of rotary positions, made once at load.
#pragma once

#include <cstdint>
#include <vector>

#include "baton/kernels/kernels.h"
#include "baton/models/config.h"

namespace baton::models {

/// rotary_dim / 2 angles per position, in radians, scaling applied; descending.
std::vector<double> rope_frequencies(const RopeConfig& config);

/// Computed in double by additions, multiplications and divisions alone, so that the bits are the
/// same on every machine whatever its C library (P1); then rounded to float32.
kernels::RopeTable make_rope_table(const RopeConfig& config, std::int64_t positions);

/// Bytes of that table.
std::size_t rope_table_bytes(const RopeConfig& config, std::int64_t positions);

struct SineCosine {
  double sine = 0;
  double cosine = 0;
};

/// For 0 <= angle < 2^22; within 2 units in the last place of a double.
SineCosine sine_cosine(double angle);

}  // namespace baton::models
