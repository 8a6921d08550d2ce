// The set "ref": every operation in plain float32, written to be read. It judges accuracy.
#include <algorithm>
#include <cmath>

#include "baton/base/check.h"

#include "half.h"
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

class Ref final : public Kernels {
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
      pool_.run(span.count * args.heads,
                [&](int task) { attend(args, span, task / args.heads, task % args.heads); });
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

  static float cached(const tensor::UnitLayout& unit, const std::byte* head, std::size_t index) {
    if (unit.dtype == tensor::CacheDtype::f32) return load<float>(head + index * 4);
    return bf16_to_f32(load<std::uint16_t>(head + index * 2));
  }

  /// One query head of one row: scores, softmax, weighted sum, each over all visible keys.
  static void attend(const AttentionArgs& args, const RowSpan& span, int row, int head) {
    const tensor::UnitLayout& unit = args.cache.unit;
    const std::int64_t position = span.first_position + row;
    const std::int64_t first =
        args.window > 0 && position >= args.window ? position - args.window + 1 : std::int64_t{0};
    const std::size_t offset =
        static_cast<std::size_t>(head / (args.heads / unit.kv_heads)) * unit.head_bytes();
    const float* q = args.q.row(span.row + row) + head * unit.head_dim;
    float* out = args.out.row(span.row + row) + head * unit.head_dim;

    std::vector<float> p;
    for (std::int64_t key = first; key <= position; ++key) {
      const std::byte* k = unit_of(args.cache, span.kv.k, key) + offset;
      const int slot = static_cast<int>(key % tensor::unit_positions);
      float score = 0;
      for (int d = 0; d < unit.head_dim; ++d)
        score += q[d] * cached(unit, k, unit.k_index(slot, d));
      score *= args.scale;
      p.push_back(args.softcap > 0 ? args.softcap * std::tanh(score / args.softcap) : score);
    }
    const float highest = *std::max_element(p.begin(), p.end());
    float sum = 0;
    for (float& value : p) sum += value = std::exp(value - highest);

    std::fill_n(out, unit.head_dim, 0.0F);
    for (std::int64_t key = first; key <= position; ++key) {
      const std::byte* v = unit_of(args.cache, span.kv.v, key) + offset;
      const int slot = static_cast<int>(key % tensor::unit_positions);
      const float weight = p[static_cast<std::size_t>(key - first)] / sum;
      for (int d = 0; d < unit.head_dim; ++d) {
        out[d] += weight * cached(unit, v, unit.v_index(slot, d));
      }
    }
  }

  ThreadPool& pool_;
};

}  // namespace

std::unique_ptr<Kernels> make_ref(ThreadPool& pool) { return std::make_unique<Ref>(pool); }

}  // namespace baton::kernels
