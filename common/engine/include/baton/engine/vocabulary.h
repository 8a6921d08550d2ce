// Passes over a row of logits. Every result is bit-equal on every machine: the operations are
// additions, multiplications, divisions and comparisons in a fixed order, never a library's exp or
// log.
#pragma once

#include <cstddef>
#include <span>

#include "baton/base/ids.h"

namespace baton::engine {

/// Weights are summed in chunks of so many ids, chunks in ascending order.
inline constexpr std::size_t vocabulary_chunk = 1024;

struct RowScan {
  float max = 0;
  TokenId argmax = 0;   ///< lowest id with the greatest logit
  bool finite = false;  ///< no NaN, and the greatest is neither infinite nor minus infinity
};

/// `logits` is not empty.
RowScan scan_row(std::span<const float> logits);

/// e^x for x <= 0, within 2^-22 of it; 0 for x below -87 (also for minus infinity and NaN).
float exp_nonpositive(float x);

/// out[i] = exp_nonpositive((logits[i] - max) / temperature).
void weigh(std::span<const float> logits, float max, float temperature, std::span<float> out);

/// Sum of one chunk (at most vocabulary_chunk weights): 16 lanes and a fixed tree, in double.
double sum_chunk(std::span<const float> weights);

/// Sum of all chunks, ascending.
double sum_weights(std::span<const float> weights);

/// Natural logarithm of a positive normal number, within a few units in the last place.
double natural_log(double value);

}  // namespace baton::engine
