// The class lanes16 as a kernel set: checks, workspaces and the split over threads. No arithmetic
// with an order is done here.
#include <algorithm>
#include <array>

#include "baton/base/check.h"
#include "baton/tensor/buffer.h"

#include "float_mode.h"
#include "kv_cache.h"
#include "lanes16/attention.h"
#include "lanes16/constants.h"
#include "lanes16/ops.h"
#include "sets.h"

namespace baton::kernels {
namespace {

/// Memory that only grows.
class Workspace {
 public:
  template <typename T>
  T* get(std::size_t count) {
    if (count * sizeof(T) > buffer_.size()) buffer_ = tensor::Buffer(count * sizeof(T) * 5 / 4);
    return reinterpret_cast<T*>(buffer_.data());
  }

 private:
  tensor::Buffer buffer_;
};

// Below this a second thread costs more than it saves.
constexpr int values_worth_sharing = 16384;

class Lanes16 final : public Kernels {
 public:
  Lanes16(const Lanes16Ops& ops, ThreadPool& pool) : ops_(ops), pool_(pool) {}

  std::string_view set_name() const override { return ops_.name; }
  std::string_view numerics_class() const override { return "lanes16-1"; }

  std::size_t packed_bytes(const WeightView& w) const override {
    const PanelShape shape = panel_shape(w.dtype, w.outputs, w.inputs);
    return static_cast<std::size_t>(shape.panels) * shape.panel_bytes;
  }
  void pack(const WeightView& weight, std::byte* out) const override { pack_panels(weight, out); }

  void embed(const PackedMatrix& weight, std::span<const TokenId> ids, float scale,
             Rows out) override {
    const FloatModeScope mode;
    const PanelShape shape = panel_shape(weight.dtype, weight.outputs, weight.inputs);
    each_row(out.rows, out.cols, [&](int r) {
      const TokenId id = ids[static_cast<std::size_t>(r)];
      BATON_CHECK(id >= 0 && id < weight.outputs);
      float* row = out.row(r);
      unpack_output(shape, weight.data, id, row);
      for (int i = 0; i < weight.inputs; ++i) row[i] *= scale;
    });
  }

  void linear(const PackedMatrix& weight, std::span<const float> bias, ConstRows x,
              Rows y) override {
    const FloatModeScope mode;
    const PanelShape shape = panel_shape(weight.dtype, weight.outputs, weight.inputs);
    BATON_CHECK(x.cols == weight.inputs && y.cols == weight.outputs && x.rows == y.rows);
    BATON_CHECK(bias.empty() || bias.size() == static_cast<std::size_t>(weight.outputs));
    LinearTask all;
    all.shape = &shape;
    all.packed = weight.data;
    all.bias = bias.empty() ? nullptr : bias.data();
    all.x = prepare(shape, x);
    all.y = y;
    all.row_end = x.rows;
    all.panel_end = shape.panels;
    split_linear(all);
  }

  void rms_norm(ConstRows x, std::span<const float> weight, float epsilon, Rows y) override {
    const FloatModeScope mode;
    const int width = static_cast<int>(weight.size());
    BATON_CHECK(width > 0 && x.cols % width == 0);
    each_row(x.rows, x.cols, [&](int r) {
      for (int begin = 0; begin < x.cols; begin += width) {
        ops_.rms_norm(x.row(r) + begin, weight.data(), width, epsilon, y.row(r) + begin);
      }
    });
  }

  void rope(Rows x, int head_dim, const RopeTable& table,
            std::span<const std::int64_t> positions) override {
    const FloatModeScope mode;
    BATON_CHECK(table.rotary_dim <= head_dim && x.cols % head_dim == 0);
    each_row(x.rows, x.cols, [&](int r) {
      const std::int64_t position = positions[static_cast<std::size_t>(r)];
      BATON_CHECK(position >= 0 && position < table.positions);
      const int pairs = table.rotary_dim / 2;
      const RopeRow row{table.cosines.data() + position * pairs,
                        table.sines.data() + position * pairs, pairs, table.interleaved};
      for (int begin = 0; begin < x.cols; begin += head_dim) {
        ops_.rope_head(x.row(r) + begin, row);
      }
    });
  }

  void write_kv(const CacheGeometry& cache, ConstRows k, ConstRows v,
                std::span<const RowSpan> spans) override {
    write_kv_rows(pool_, cache, k, v, spans);
  }

  void attention(const AttentionArgs& args) override {
    const FloatModeScope mode;
    attention_.run(args);
  }

  void gated(Activation activation, ConstRows gate, ConstRows up, Rows out) override {
    const FloatModeScope mode;
    each_row(gate.rows, gate.cols,
             [&](int r) { ops_.gated(activation, gate.row(r), up.row(r), gate.cols, out.row(r)); });
  }

  void add(Rows x, ConstRows y) override {
    const FloatModeScope mode;
    each_row(x.rows, x.cols, [&](int r) { ops_.add(x.row(r), y.row(r), x.cols); });
  }

  void soft_cap(Rows x, float softcap) override {
    if (softcap == 0) return;
    const FloatModeScope mode;
    each_row(x.rows, x.cols, [&](int r) { ops_.soft_cap(x.row(r), x.cols, softcap); });
  }

  Digest128 probe() override { return run_probe(*this); }

 private:
  /// Rows one by one, on all threads when there is enough to do.
  template <typename Task>
  void each_row(int rows, int cols, const Task& task) {
    if (rows > 1 && static_cast<std::int64_t>(rows) * cols >= values_worth_sharing) {
      const int rows_per_task = std::max(1, 4096 / std::max(1, cols));
      pool_.run((rows + rows_per_task - 1) / rows_per_task, [&](int i) {
        const int end = std::min(rows, (i + 1) * rows_per_task);
        for (int r = i * rows_per_task; r < end; ++r) task(r);
      });
    } else {
      for (int r = 0; r < rows; ++r) task(r);
    }
  }

  Activations prepare(const PanelShape& shape, ConstRows x) {
    if (shape.integer()) return quantise(shape, x);
    if (shape.arithmetic == Arithmetic::bf16) return round(shape, x);
    return {reinterpret_cast<const std::uint32_t*>(x.data), x.stride};
  }

  Activations round(const PanelShape& shape, ConstRows x) {
    const auto stride = static_cast<std::size_t>(shape.steps);
    auto* words = values_.get<std::uint32_t>(stride * x.rows);
    each_row(x.rows, x.cols, [&](int r) {
      ops_.round_row(x.row(r), x.cols, words + static_cast<std::size_t>(r) * stride);
    });
    return {words, static_cast<std::ptrdiff_t>(stride)};
  }

  Activations quantise(const PanelShape& shape, ConstRows x) {
    const auto groups = static_cast<std::size_t>(shape.steps);
    auto* out = values_.get<QuantisedGroup>(groups * x.rows);
    each_row(x.rows, x.cols, [&](int r) {
      ops_.quantise_row(x.row(r), shape.steps, shape.bias(),
                        out + static_cast<std::size_t>(r) * groups);
    });
    return {reinterpret_cast<const std::uint32_t*>(out),
            static_cast<std::ptrdiff_t>(groups * sizeof(QuantisedGroup) / 4)};
  }

  /// Cuts a product into tasks: over panels, and over rows where they are many.
  void split_linear(const LinearTask& all) {
    constexpr int rows_per_task = 192;
    const int row_tasks = (all.row_end + rows_per_task - 1) / rows_per_task;
    const int wanted = all.row_end == 1 ? 2 * pool_.threads() : 4 * pool_.threads();
    // An even number: kernels take two panels at a time.
    const int panel_pairs = (all.panel_end + 1) / 2;
    const int pairs_per_task = std::max(1, panel_pairs * row_tasks / std::max(1, wanted));
    const int panel_tasks = (panel_pairs + pairs_per_task - 1) / pairs_per_task;
    const auto run = [&](int i) {
      LinearTask task = all;
      task.row_begin = i % row_tasks * rows_per_task;
      task.row_end = std::min(all.row_end, task.row_begin + rows_per_task);
      task.panel_begin = i / row_tasks * pairs_per_task * 2;
      task.panel_end = std::min(all.panel_end, task.panel_begin + pairs_per_task * 2);
      ops_.linear(task);
    };
    const std::size_t bytes =
        static_cast<std::size_t>(all.panel_end) * all.shape->panel_bytes * all.row_end;
    if (bytes < values_worth_sharing) {
      for (int i = 0; i < row_tasks * panel_tasks; ++i) run(i);
    } else {
      pool_.run(row_tasks * panel_tasks, run);
    }
  }

  const Lanes16Ops& ops_;
  ThreadPool& pool_;
  AttentionDriver attention_{ops_, pool_};
  Workspace values_;
};

}  // namespace

std::unique_ptr<Kernels> make_lanes16(const Lanes16Ops& ops, ThreadPool& pool) {
  return std::make_unique<Lanes16>(ops, pool);
}

}  // namespace baton::kernels
