// Speed of the kernels: products and attention as GOP/s (two operations per multiplication), and
// the whole list of operations of a SmolLM2-135M step with random weights as tokens per second.
//
//   kernels_bench --benchmark_filter=step/cpu
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "baton/kernels/kernels.h"
#include "baton/tensor/buffer.h"

namespace baton::kernels {
namespace {

using tensor::Buffer;
using tensor::CacheDtype;
using tensor::DType;

struct Matrix {
  Matrix(int rows, int cols) : values(static_cast<std::size_t>(rows) * cols) {
    std::mt19937 engine(1);
    std::normal_distribution<float> normal;
    for (float& v : values) v = normal(engine);
    view = {values.data(), rows, cols, cols};
  }
  std::vector<float> values;
  Rows view;
};

struct Weight {
  Weight(Kernels& kernels, DType dtype, int outputs, int inputs) {
    const std::size_t bytes = tensor::row_bytes(dtype, static_cast<std::size_t>(inputs)) * outputs;
    std::vector<std::byte> file(bytes);
    // Small positive numbers in every format: 0x1111 is a half of 6e-4.
    for (std::size_t i = 0; i < bytes; ++i) file[i] = static_cast<std::byte>(0x11 + i % 3);
    const WeightView view{dtype, outputs, inputs, file.data()};
    packed = Buffer(kernels.packed_bytes(view));
    kernels.pack(view, packed.data());
    matrix = {dtype, outputs, inputs, packed.data()};
  }
  Buffer packed;
  PackedMatrix matrix;
};

void product(benchmark::State& state, const std::string& set, DType dtype, int outputs,
             int inputs) {
  ThreadPool pool(static_cast<int>(state.range(1)));
  const std::unique_ptr<Kernels> kernels = make_kernels(set, pool).value();
  const auto rows = static_cast<int>(state.range(0));
  const Weight weight(*kernels, dtype, outputs, inputs);
  const Matrix x(rows, inputs);
  Matrix y(rows, outputs);
  for (auto _ : state) kernels->linear(weight.matrix, {}, x.view, y.view);
  const double work = 2.0 * rows * outputs * inputs * static_cast<double>(state.iterations());
  state.counters["GOP/s"] = benchmark::Counter(work / 1e9, benchmark::Counter::kIsRate);
  const double bytes =
      static_cast<double>(weight.packed.size()) * static_cast<double>(state.iterations());
  state.counters["weights_GB/s"] = benchmark::Counter(bytes / 1e9, benchmark::Counter::kIsRate);
}

struct AttentionShape {
  CacheDtype dtype = CacheDtype::bf16;
  int head_dim = 64;
  int heads = 9;
  int kv_heads = 3;
};

/// Rows at a position of one sequence, which is also the first row's number of earlier keys.
void attention(benchmark::State& state, const std::string& set, const AttentionShape& shape) {
  ThreadPool pool(static_cast<int>(state.range(2)));
  const std::unique_ptr<Kernels> kernels = make_kernels(set, pool).value();
  const auto rows = static_cast<int>(state.range(0));
  const auto position = static_cast<int>(state.range(1));
  const CacheGeometry cache{{shape.dtype, shape.kv_heads, shape.head_dim}, 1};
  const int units = (position + rows + 15) / 16;
  Buffer arena(2 * cache.unit.unit_bytes() * static_cast<std::size_t>(units));
  std::vector<std::byte*> k_blocks;
  std::vector<std::byte*> v_blocks;
  for (int i = 0; i < units; ++i) {
    k_blocks.push_back(arena.data() + static_cast<std::size_t>(2 * i) * cache.unit.unit_bytes());
    v_blocks.push_back(k_blocks.back() + cache.unit.unit_bytes());
  }
  const Matrix kv(position + rows, shape.kv_heads * shape.head_dim);
  const RowSpan all{0, position + rows, 0, {k_blocks, v_blocks}};
  kernels->write_kv(cache, kv.view, kv.view, {&all, 1});
  const Matrix q(rows, shape.heads * shape.head_dim);
  Matrix out(rows, shape.heads * shape.head_dim);
  const RowSpan span{0, rows, position, {k_blocks, v_blocks}};
  AttentionArgs args{q.view, out.view, shape.heads, 0.125F, 0, 0, cache, {&span, 1}};
  for (auto _ : state) kernels->attention(args);
  const double pairs = rows * (position + (rows + 1) / 2.0) * shape.heads;
  const double work = 4 * pairs * shape.head_dim * static_cast<double>(state.iterations());
  state.counters["GOP/s"] = benchmark::Counter(work / 1e9, benchmark::Counter::kIsRate);
  const auto bytes = static_cast<double>(arena.size());
  state.counters["cache_GB/s"] = benchmark::Counter(
      bytes / 1e9 * static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}

/// All operations of one step of SmolLM2-135M.
class SmolStep {
 public:
  static constexpr int width = 576;
  static constexpr int hidden = 1536;
  static constexpr int heads = 9;
  static constexpr int kv_heads = 3;
  static constexpr int head_dim = 64;
  static constexpr int kv_width = kv_heads * head_dim;
  static constexpr int vocabulary = 49152;

  SmolStep(Kernels& kernels, DType dtype, int rows, int position)
      : kernels_(kernels),
        rows_(rows),
        position_(position),
        output_(kernels, DType::q8_0, vocabulary, width) {
    const int blocks = (position + rows + 15) / 16;
    for (int i = 0; i < layer_count; ++i) {
      layers_.push_back(std::make_unique<Layer>(kernels, dtype, cache_, blocks));
    }
    for (int r = 0; r < rows; ++r) positions_.push_back(position + r);
    table_ = {head_dim, position + rows, false, {}, {}};
    table_.cosines.assign(static_cast<std::size_t>(position + rows) * head_dim / 2, 0.6F);
    table_.sines.assign(table_.cosines.size(), 0.8F);
  }

  void run() {
    for (const std::unique_ptr<Layer>& layer : layers_) attention_part(*layer), hidden_part(*layer);
    kernels_.rms_norm(x_.view, norm_, 1e-5F, normed_.view);
    const ConstRows last(normed_.view.row(rows_ - 1), 1, width, width);
    kernels_.linear(output_.matrix, {}, last, logits_.view);
  }

 private:
  static constexpr int layer_count = 30;

  struct Layer {
    Layer(Kernels& kernels, DType dtype, const CacheGeometry& cache, int blocks)
        : q(kernels, dtype, width, width),
          k(kernels, dtype, kv_width, width),
          v(kernels, dtype, kv_width, width),
          o(kernels, dtype, width, width),
          gate(kernels, dtype, hidden, width),
          up(kernels, dtype, hidden, width),
          down(kernels, dtype, width, hidden),
          arena(2 * cache.unit.unit_bytes() * blocks) {
      for (int i = 0; i < blocks; ++i) {
        k_blocks.push_back(arena.data() + 2 * i * cache.unit.unit_bytes());
        v_blocks.push_back(arena.data() + (2 * i + 1) * cache.unit.unit_bytes());
      }
    }
    Weight q, k, v, o, gate, up, down;
    Buffer arena;
    std::vector<std::byte*> k_blocks;
    std::vector<std::byte*> v_blocks;
  };

  void attention_part(const Layer& layer) {
    kernels_.rms_norm(x_.view, norm_, 1e-5F, normed_.view);
    kernels_.linear(layer.q.matrix, {}, normed_.view, q_.view);
    kernels_.linear(layer.k.matrix, {}, normed_.view, k_.view);
    kernels_.linear(layer.v.matrix, {}, normed_.view, v_.view);
    kernels_.rope(q_.view, head_dim, table_, positions_);
    kernels_.rope(k_.view, head_dim, table_, positions_);
    const RowSpan span{0, rows_, position_, {layer.k_blocks, layer.v_blocks}};
    kernels_.write_kv(cache_, k_.view, v_.view, {&span, 1});
    AttentionArgs args;
    args.q = q_.view;
    args.out = attended_.view;
    args.heads = heads;
    args.scale = 0.125F;
    args.cache = cache_;
    args.spans = {&span, 1};
    kernels_.attention(args);
    kernels_.linear(layer.o.matrix, {}, attended_.view, normed_.view);
    kernels_.add(x_.view, normed_.view);
  }

  void hidden_part(const Layer& layer) {
    kernels_.rms_norm(x_.view, norm_, 1e-5F, normed_.view);
    kernels_.linear(layer.gate.matrix, {}, normed_.view, gate_.view);
    kernels_.linear(layer.up.matrix, {}, normed_.view, up_.view);
    kernels_.gated(Activation::silu, gate_.view, up_.view, gate_.view);
    kernels_.linear(layer.down.matrix, {}, gate_.view, normed_.view);
    kernels_.add(x_.view, normed_.view);
  }

  Kernels& kernels_;
  int rows_;
  int position_;
  CacheGeometry cache_{{CacheDtype::bf16, kv_heads, head_dim}, 1};
  Weight output_;
  std::vector<std::unique_ptr<Layer>> layers_;
  std::vector<std::int64_t> positions_;
  RopeTable table_;
  std::vector<float> norm_ = std::vector<float>(width, 0.1F);
  Matrix x_{rows_, width}, normed_{rows_, width}, q_{rows_, width}, k_{rows_, kv_width},
      v_{rows_, kv_width}, attended_{rows_, width}, gate_{rows_, hidden}, up_{rows_, hidden},
      logits_{1, vocabulary};
};

void step(benchmark::State& state, const std::string& set, DType dtype) {
  ThreadPool pool(static_cast<int>(state.range(2)));
  const std::unique_ptr<Kernels> kernels = make_kernels(set, pool).value();
  const auto rows = static_cast<int>(state.range(0));
  SmolStep smol(*kernels, dtype, rows, static_cast<int>(state.range(1)));
  for (auto _ : state) smol.run();
  const double tokens = rows * static_cast<double>(state.iterations());
  state.counters["tokens/s"] = benchmark::Counter(tokens, benchmark::Counter::kIsRate);
}

void register_attention(const std::string& set, const AttentionShape& shape) {
  const std::string name = "attention/" + set + "/dim" + std::to_string(shape.head_dim) + "/" +
                           std::string(tensor::name(shape.dtype));
  benchmark::RegisterBenchmark(name.c_str(),
                               [set, shape](benchmark::State& s) { attention(s, set, shape); })
      ->ArgNames({"rows", "position", "threads"})
      ->ArgsProduct({{1, 512}, {0, 2048, 7680}, {1, 2}})
      ->UseRealTime();
}

void register_all() {
  const std::pair<const char*, DType> types[] = {{"q4_1", DType::q4_1}, {"q4_0", DType::q4_0},
                                                 {"q8_0", DType::q8_0}, {"bf16", DType::bf16},
                                                 {"f16", DType::f16},   {"f32", DType::f32}};
  for (const std::string_view set : available_sets()) {
    if (set.starts_with("spec")) continue;  // minutes
    const std::string name(set);
    for (const CacheDtype dtype : {CacheDtype::bf16, CacheDtype::q8_0}) {
      for (const AttentionShape& shape :
           {AttentionShape{dtype, 64, 9, 3}, {dtype, 128, 8, 2}, {dtype, 256, 4, 1}}) {
        register_attention(name, shape);
      }
    }
    for (const auto& [type_name, dtype] : types) {
      const std::string suffix = "/" + name + "/" + type_name;
      const DType type = dtype;
      benchmark::RegisterBenchmark(
          ("product_576_1536" + suffix).c_str(),
          [name, type](benchmark::State& s) { product(s, name, type, 1536, 576); })
          ->ArgNames({"rows", "threads"})
          ->ArgsProduct({{1, 4, 512}, {1, 2}})
          ->UseRealTime();
      benchmark::RegisterBenchmark(("step" + suffix).c_str(),
                                   [name, type](benchmark::State& s) { step(s, name, type); })
          ->ArgNames({"rows", "position", "threads"})
          ->Args({512, 0, 2})
          ->Args({512, 0, 1})
          ->Args({1, 128, 2})
          ->Args({1, 128, 1})
          ->Args({1, 2048, 2})
          ->UseRealTime();
    }
  }
}

}  // namespace
}  // namespace baton::kernels

int main(int argc, char** argv) {
  baton::kernels::register_all();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
