// The class lanes16 as a kernel set: checks, workspaces and the split over threads. No arithmetic
// with an order is done here.
#include "baton/base/check.h"

#include "composed.h"
#include "float_mode.h"
#include "kv_cache.h"
#include "lanes16/attention.h"
#include "lanes16/each_row.h"
#include "lanes16/feed_forward.h"
#include "lanes16/ops.h"
#include "sets.h"

namespace baton::kernels {
namespace {

class Lanes16 final : public Composed {
 public:
  Lanes16(const Lanes16Ops& ops, ThreadPool& pool) : ops_(ops), pool_(pool) {}

  std::string_view set_name() const override { return ops_.name; }
  std::string_view numerics_class() const override { return ops_.numerics_class; }

  std::size_t packed_bytes(const WeightView& w) const override {
    const PanelShape shape = panel_shape(w.dtype, w.outputs, w.inputs);
    return shape.bytes();
  }
  void pack(const WeightView& weight, std::byte* out) const override { pack_panels(weight, out); }

  void embed(const PackedMatrix& weight, std::span<const TokenId> ids, float scale,
             Rows out) override {
    const FloatModeScope mode;
    const PanelShape shape = panel_shape(weight.dtype, weight.outputs, weight.inputs);
    each_row(pool_, out.rows, out.cols, [&](int r) {
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
    linear_.run({weight, bias, x, nullptr, y});
  }
  void norm_linear(const RowNorm& norm, const LinearWeights& weights, ConstRows x,
                   Rows y) override {
    const FloatModeScope mode;
    BATON_CHECK(norm.weight.size() == static_cast<std::size_t>(x.cols));
    each_piece({{}, weights.bias, x, &norm, y}, weights);
  }
  void add_linear(const LinearWeights& weights, ConstRows x, Rows y) override {
    const FloatModeScope mode;
    each_piece({{}, weights.bias, x, nullptr, y, true}, weights);
  }
  void feed_forward(const FeedForward& layer, Rows x) override {
    if (!FeedForwardDriver::fits(layer)) return Composed::feed_forward(layer, x);
    const FloatModeScope mode;
    feed_forward_.run(layer, x);
  }

  void rms_norm(ConstRows x, std::span<const float> weight, float epsilon, Rows y) override {
    const FloatModeScope mode;
    const int width = static_cast<int>(weight.size());
    BATON_CHECK(width > 0 && x.cols % width == 0);
    each_row(pool_, x.rows, x.cols, [&](int r) {
      for (int begin = 0; begin < x.cols; begin += width) {
        ops_.rms_norm(x.row(r) + begin, weight.data(), width, epsilon, y.row(r) + begin);
      }
    });
  }

  void rope(Rows x, int head_dim, const RopeTable& table,
            std::span<const std::int64_t> positions) override {
    const FloatModeScope mode;
    BATON_CHECK(table.rotary_dim <= head_dim && x.cols % head_dim == 0);
    each_row(pool_, x.rows, x.cols, [&](int r) {
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
    each_row(pool_, gate.rows, gate.cols,
             [&](int r) { ops_.gated(activation, gate.row(r), up.row(r), gate.cols, out.row(r)); });
  }

  void add(Rows x, ConstRows y) override {
    const FloatModeScope mode;
    each_row(pool_, x.rows, x.cols, [&](int r) { ops_.add(x.row(r), y.row(r), x.cols); });
  }

  void soft_cap(Rows x, float softcap) override {
    if (softcap == 0) return;
    const FloatModeScope mode;
    each_row(pool_, x.rows, x.cols, [&](int r) { ops_.soft_cap(x.row(r), x.cols, softcap); });
  }

  Digest128 probe() override { return run_probe(*this); }

 private:
  /// `all` has the bias and the outputs of all pieces.
  void each_piece(const LinearJob& all, const LinearWeights& weights) {
    int first = 0;
    for (const PackedMatrix& piece : weights.pieces) {
      LinearJob job = all;
      job.weight = piece;
      const auto outputs = static_cast<std::size_t>(piece.outputs);
      if (!job.bias.empty()) job.bias = job.bias.subspan(static_cast<std::size_t>(first), outputs);
      job.y = {all.y.data + first, all.y.rows, piece.outputs, all.y.stride};
      linear_.run(job);
      first += piece.outputs;
    }
    BATON_CHECK(first == all.y.cols);
  }

  const Lanes16Ops& ops_;
  ThreadPool& pool_;
  AttentionDriver attention_{ops_, pool_};
  LinearDriver linear_{ops_, pool_};
  FeedForwardDriver feed_forward_{ops_, pool_, linear_};
};

}  // namespace

std::unique_ptr<Kernels> make_lanes16(const Lanes16Ops& ops, ThreadPool& pool) {
  return std::make_unique<Lanes16>(ops, pool);
}

}  // namespace baton::kernels
