// Attention of the class: one query at a time, tile after tile inside a segment.
#include "cached_value.h"
#include "kv_cache.h"
#include "spec/spec.h"

namespace baton::kernels::spec {
namespace {

using tensor::unit_positions;

constexpr float minus_infinity = -std::numeric_limits<float>::infinity();

/// One query over one segment.
class SegmentPass {
 public:
  SegmentPass(const AttendTask& task, const Query& query)
      : task_(task), query_(query), unit_(task.cache.unit), narrow_(unit_.pair() == 2) {
    const auto* q_bits = reinterpret_cast<const std::uint32_t*>(query.q);
    for (int i = 0; i < unit_.head_dim; ++i) q_[i] = load<std::uint32_t>(q_bits + i);
    if (narrow_) round_row(query.q, unit_.head_dim, q_);
  }

  void run(std::int64_t segment) {
    for (int t = 0; t < segment_keys / tile_keys; ++t) {
      const std::int64_t begin = segment * segment_keys + t * tile_keys;
      if (sees(query_, begin, begin + tile_keys)) tile(begin);
    }
  }

  void store(float& max, float& sum, float* out) const {
    max = max_;
    sum = reduce(sum_);
    for (int d = 0; d < unit_.head_dim; ++d) out[d] = out_[d];
  }

 private:
  bool visible(std::int64_t key) const { return key >= query_.first && key <= query_.last; }

  const std::byte* head(std::span<std::byte* const> blocks, std::int64_t key) const {
    return unit_of(task_.cache, blocks, key) + task_.head_offset;
  }

  float step(float sum, std::uint32_t a, std::uint32_t b) const {
    return narrow_ ? step_bf16(sum, a, b) : step_f32(sum, a, b);
  }

  /// Step s of a key: two bf16, or the float that it stands for.
  std::uint32_t key_word(const std::byte* k, int slot, int s) const {
    if (!narrow_) {
      return std::bit_cast<std::uint32_t>(cached_value(unit_, tensor::KvPart::k, k, slot, s));
    }
    return load<std::uint32_t>(k + unit_.k_index(slot, 2 * s) * 2);
  }

  float score(std::int64_t key) const {
    const std::byte* k = head(task_.kv.k, key);
    const int slot = static_cast<int>(key % unit_positions);
    float sum = 0;
    for (int s = 0; s < unit_.head_dim / unit_.pair(); ++s) {
      sum = step(sum, key_word(k, slot, s), q_[s]);
    }
    return task_.softcap > 0 ? soft_cap(sum * task_.scale, task_.softcap) : sum;
  }

  /// The cached value as it enters the sum: +0 for a masked key, whatever the memory holds.
  std::uint32_t value_bits(std::int64_t key, int d) const {
    if (!visible(key)) return 0;
    const int slot = static_cast<int>(key % unit_positions);
    const std::byte* v = head(task_.kv.v, key);
    if (narrow_) return load<std::uint16_t>(v + unit_.v_index(slot, d) * 2);
    return std::bit_cast<std::uint32_t>(cached_value(unit_, tensor::KvPart::v, v, slot, d));
  }

  void tile(std::int64_t begin) {
    float scores[tile_keys];
    float top = minus_infinity;
    for (int j = 0; j < tile_keys; ++j) {
      scores[j] = visible(begin + j) ? score(begin + j) : minus_infinity;
      top = scores[j] > top ? scores[j] : top;
    }
    const float factor = exponent_factor(task_);
    const float highest = top * factor > max_ ? top * factor : max_;
    const float correction = exp2(max_ - highest);
    max_ = highest;
    std::uint32_t p[tile_keys];
    for (float& s : sum_) s = s * correction;
    for (int j = 0; j < tile_keys; ++j) {
      const float weight = visible(begin + j) ? exp2(fma(scores[j], factor, -max_)) : 0;
      p[j] = narrow_ ? f32_to_bf16(weight) : std::bit_cast<std::uint32_t>(weight);
      sum_[j % lanes] = sum_[j % lanes] + std::bit_cast<float>(narrow_ ? p[j] << 16 : p[j]);
    }
    for (int d = 0; d < unit_.head_dim; ++d) {
      float sum = out_[d] * correction;
      for (int j = 0; j < tile_keys; j += unit_.pair()) {
        std::uint32_t weights = p[j];
        std::uint32_t values = value_bits(begin + j, d);
        if (narrow_) {
          weights |= p[j + 1] << 16;
          values |= value_bits(begin + j + 1, d) << 16;
        }
        sum = step(sum, values, weights);
      }
      out_[d] = sum;
    }
  }

  const AttendTask& task_;
  const Query& query_;
  tensor::UnitLayout unit_;
  bool narrow_;
  std::uint32_t q_[max_head_dim];
  float max_ = minus_infinity;
  float sum_[lanes] = {};
  float out_[max_head_dim] = {};
};

}  // namespace

void attend_segment(const AttendTask& task, std::int64_t segment, const SoftmaxState& state) {
  const std::int64_t begin = segment * segment_keys;
  for (int i = 0; i < task.count; ++i) {
    if (!sees(task.queries[i], begin, begin + segment_keys)) continue;
    SegmentPass pass(task, task.queries[i]);
    pass.run(segment);
    pass.store(state.max[i], state.sum[i], state.out + i * state.stride);
  }
}

void merge(const SoftmaxState& total, const SoftmaxState& part, int query, int head_dim) {
  const float highest = part.max[query] > total.max[query] ? part.max[query] : total.max[query];
  const float old_factor = exp2(total.max[query] - highest);
  const float new_factor = exp2(part.max[query] - highest);
  total.max[query] = highest;
  total.sum[query] = fma(total.sum[query], old_factor, part.sum[query] * new_factor);
  float* out = total.out + query * total.stride;
  const float* add = part.out + query * part.stride;
  for (int d = 0; d < head_dim; ++d) out[d] = fma(out[d], old_factor, add[d] * new_factor);
}

void finish(const SoftmaxState& total, int query, int head_dim, float* out) {
  const float factor = 1.0F / total.sum[query];
  const float* from = total.out + query * total.stride;
  for (int d = 0; d < head_dim; ++d) out[d] = from[d] * factor;
}

}  // namespace baton::kernels::spec
