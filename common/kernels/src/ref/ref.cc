// The set "ref": every operation in plain float32, written to be read. It judges accuracy.
#include <algorithm>
#include <cmath>

#include "baton/base/check.h"

#include "cached_value.h"
#include "composed.h"
#include "kv_cache.h"
#include "sets.h"

namespace baton::kernels {
namespace {

/// Sixteen partial sums: lets the compiler use vectors and keeps the rounding error small.
float dot(const float* a, const float* b, int n) {
  float lanes[16] = {};
  int i = 0;
  for (; i + 16 <= n; i += 16) {
    for (int j = 0; j < 16; ++j) lanes[j] += a[i + j] * b[i + j];
  }
  float sum = 0;
  for (; i < n; ++i) sum += a[i] * b[i];
  for (const float lane : lanes) sum += lane;
  return sum;
}

float silu(float x) { return x / (1 + std::exp(-x)); }

float gelu_tanh(float x) {
  constexpr float root_two_over_pi = 0.7978845608028654F;
  return 0.5F * x * (1 + std::tanh(root_two_over_pi * (x + 0.044715F * x * x * x)));
}

class Ref final : public Composed {
 public:
  explicit Ref(ThreadPool& pool) : pool_(pool) {}

  std::string_view set_name() const override { return "ref"; }
  std::string_view numerics_class() const override { return "ref-1"; }

  std::size_t packed_bytes(const WeightView& w) const override {
    return static_cast<std::size_t>(w.outputs) * w.inputs * sizeof(float);
  }
  void pack(const WeightView& w, std::byte* out) const override {
    const std::size_t count = static_cast<std::size_t>(w.outputs) * w.inputs;
    dequantise(w.dtype, w.data, count, reinterpret_cast<float*>(out));
  }

  void embed(const PackedMatrix& weight, std::span<const TokenId> ids, float scale,
             Rows out) override {
    for (std::size_t r = 0; r < ids.size(); ++r) {
      const float* from = weight_row(weight, ids[r]);
      float* to = out.row(static_cast<int>(r));
      for (int i = 0; i < weight.inputs; ++i) to[i] = from[i] * scale;
    }
  }

  void linear(const PackedMatrix& weight, std::span<const float> bias, ConstRows x,
              Rows y) override {
    constexpr int outputs_per_task = 16;
    const int tasks = (weight.outputs + outputs_per_task - 1) / outputs_per_task;
    pool_.run(tasks, [&](int task) {
      const int end = std::min(weight.outputs, (task + 1) * outputs_per_task);
      for (int o = task * outputs_per_task; o < end; ++o) {
        const float* w = weight_row(weight, o);
        for (int r = 0; r < x.rows; ++r) {
          y.row(r)[o] = dot(x.row(r), w, weight.inputs) + (bias.empty() ? 0 : bias[o]);
        }
      }
    });
  }

  void rms_norm(ConstRows x, std::span<const float> weight, float epsilon, Rows y) override {
    const int width = static_cast<int>(weight.size());
    BATON_CHECK(width > 0 && x.cols % width == 0);
    for (int r = 0; r < x.rows; ++r) {
      for (int begin = 0; begin < x.cols; begin += width) {
        const float* from = x.row(r) + begin;
        const float mean = dot(from, from, width) / static_cast<float>(width);
        const float factor = 1 / std::sqrt(mean + epsilon);
        for (int i = 0; i < width; ++i) y.row(r)[begin + i] = from[i] * factor * weight[i];
      }
    }
  }

  void rope(Rows x, int head_dim, const RopeTable& table,
            std::span<const std::int64_t> positions) override {
    const int pairs = table.rotary_dim / 2;
    const int step = table.interleaved ? 2 : 1;
    const int other = table.interleaved ? 1 : pairs;
    for (int r = 0; r < x.rows; ++r) {
      const std::int64_t position = positions[static_cast<std::size_t>(r)];
      BATON_CHECK(position >= 0 && position < table.positions);
      const float* cosines = table.cosines.data() + position * pairs;
      const float* sines = table.sines.data() + position * pairs;
      for (float* head = x.row(r); head < x.row(r) + x.cols; head += head_dim) {
        for (int i = 0; i < pairs; ++i) {
          float& a = head[i * step];
          float& b = head[i * step + other];
          const float rotated = a * cosines[i] - b * sines[i];
          b = b * cosines[i] + a * sines[i];
          a = rotated;
        }
      }
    }
  }

  void write_kv(const CacheGeometry& cache, ConstRows k, ConstRows v,
                std::span<const RowSpan> spans) override {
    write_kv_rows(pool_, cache, k, v, spans);
  }

  void attention(const AttentionArgs& args) override {
    for (const RowSpan& span : args.spans) {
      const Cached cached = read_cache(args, span);
      pool_.run(span.count * args.heads, [&](int task) {
        attend(args, span, cached, task / args.heads, task % args.heads);
      });
    }
  }

  void gated(Activation activation, ConstRows gate, ConstRows up, Rows out) override {
    const auto act = activation == Activation::silu ? silu : gelu_tanh;
    for (int r = 0; r < gate.rows; ++r) {
      for (int i = 0; i < gate.cols; ++i) out.row(r)[i] = act(gate.row(r)[i]) * up.row(r)[i];
    }
  }

  void add(Rows x, ConstRows y) override {
    for (int r = 0; r < x.rows; ++r) {
      for (int i = 0; i < x.cols; ++i) x.row(r)[i] += y.row(r)[i];
    }
  }

  void soft_cap(Rows x, float softcap) override {
    if (softcap == 0) return;
    for (int r = 0; r < x.rows; ++r) {
      for (int i = 0; i < x.cols; ++i) x.row(r)[i] = softcap * std::tanh(x.row(r)[i] / softcap);
    }
  }

  Digest128 probe() override { return run_probe(*this); }

 private:
  static const float* weight_row(const PackedMatrix& weight, int output) {
    return reinterpret_cast<const float*>(weight.data) +
           static_cast<std::size_t>(output) * weight.inputs;
  }

  /// A sequence's visible keys and values as float32: [kv head][key - first][d].
  struct Cached {
    std::int64_t first;
    std::int64_t count;
    std::vector<float> k;
    std::vector<float> v;
  };

  static std::int64_t first_visible(const AttentionArgs& args, std::int64_t position) {
    return args.window > 0 && position >= args.window ? position - args.window + 1 : 0;
  }

  Cached read_cache(const AttentionArgs& args, const RowSpan& span) {
    const tensor::UnitLayout& unit = args.cache.unit;
    Cached cached;
    cached.first = first_visible(args, span.first_position);
    cached.count = span.first_position + span.count - cached.first;
    const auto head_size = static_cast<std::size_t>(cached.count * unit.head_dim);
    cached.k.resize(head_size * unit.kv_heads);
    cached.v.resize(head_size * unit.kv_heads);
    pool_.run(unit.kv_heads, [&](int head) {
      float* k = cached.k.data() + head_size * head;
      float* v = cached.v.data() + head_size * head;
      for (std::int64_t key = cached.first; key < cached.first + cached.count; ++key) {
        const std::size_t offset = static_cast<std::size_t>(head) * unit.head_bytes();
        const std::byte* k_head = unit_of(args.cache, span.kv.k, key) + offset;
        const std::byte* v_head = unit_of(args.cache, span.kv.v, key) + offset;
        const int slot = static_cast<int>(key % tensor::unit_positions);
        for (int d = 0; d < unit.head_dim; ++d) {
          *k++ = cached_value(unit, tensor::KvPart::k, k_head, slot, d);
          *v++ = cached_value(unit, tensor::KvPart::v, v_head, slot, d);
        }
      }
    });
    return cached;
  }

  /// One query head of one row: scores, softmax, weighted sum, each over all visible keys.
  static void attend(const AttentionArgs& args, const RowSpan& span, const Cached& cached, int row,
                     int head) {
    const int head_dim = args.cache.unit.head_dim;
    const std::int64_t position = span.first_position + row;
    const std::int64_t first = first_visible(args, position);
    const int group = args.heads / args.cache.unit.kv_heads;
    const std::int64_t at = (head / group * cached.count + first - cached.first) * head_dim;
    const float* q = args.q.row(span.row + row) + head * head_dim;
    float* out = args.out.row(span.row + row) + head * head_dim;

    std::vector<float> p(static_cast<std::size_t>(position - first + 1));
    const float* k = cached.k.data() + at;
    for (float& value : p) {
      const float score = args.scale * dot(q, k, head_dim);
      value = args.softcap > 0 ? args.softcap * std::tanh(score / args.softcap) : score;
      k += head_dim;
    }
    const float highest = *std::max_element(p.begin(), p.end());
    float sum = 0;
    for (float& value : p) sum += value = std::exp(value - highest);

    std::fill_n(out, head_dim, 0.0F);
    const float* v = cached.v.data() + at;
    for (const float value : p) {
      for (int d = 0; d < head_dim; ++d) out[d] += value / sum * v[d];
      v += head_dim;
    }
  }

  ThreadPool& pool_;
};

}  // namespace

std::unique_ptr<Kernels> make_ref(ThreadPool& pool) { return std::make_unique<Ref>(pool); }

}  // namespace baton::kernels
