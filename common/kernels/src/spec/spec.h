// The scalar definition of the class lanes16. Written for reading and comparing, not for speed.
#pragma once

#include "lanes16/ops.h"
#include "spec/scalar.h"

namespace baton::kernels::spec {

void quantise_row(const float* x, int groups, const IntegerFormat& format, const QuantisedRow& out);
void round_row(const float* x, int n, std::uint32_t* out);
void round_apart(const float* x, int n, std::uint32_t* out, std::ptrdiff_t stride);
void linear(const LinearTask& task);
/// As tiles16 has it.
void linear_in_tiles(const LinearTask& task);
void attend_segment(const AttendTask& task, std::int64_t segment, const SoftmaxState& state);
void merge(const SoftmaxState& total, const SoftmaxState& part, int query, int head_dim);
void finish(const SoftmaxState& total, int query, int head_dim, float* out);

}  // namespace baton::kernels::spec
