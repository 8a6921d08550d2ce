// The table of operations of a device. Nothing above this folder knows an instruction set.
// `ref` computes in plain float32 and judges accuracy. `spec` and `spec_tiles` define the numerics
// classes lanes16 and tiles16, whose other sets are bit-equal to them. The orders are written in
// ARCHITECTURE.md, Numerics. None depends on the number of rows, on the split over threads or on
// the other sequences of a step (P1).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "baton/base/ids.h"
#include "baton/base/result.h"
#include "baton/kernels/thread_pool.h"
#include "baton/tensor/dtype.h"
#include "baton/tensor/unit_layout.h"

namespace baton::kernels {

/// Attention keeps its state on the stack: larger heads are refused (by a CHECK).
inline constexpr int max_head_dim = 1024;

/// Row-major float32 matrix; row r starts at data + r * stride.
struct Rows {
  float* data = nullptr;
  int rows = 0;
  int cols = 0;
  int stride = 0;

  float* row(int r) const { return data + static_cast<std::ptrdiff_t>(r) * stride; }
};

struct ConstRows {
  const float* data = nullptr;
  int rows = 0;
  int cols = 0;
  int stride = 0;

  ConstRows() = default;
  ConstRows(const float* d, int r, int c, int s) : data(d), rows(r), cols(c), stride(s) {}
  // Implicit on purpose: what may be written may be read.
  // NOLINTNEXTLINE(google-explicit-constructor)
  ConstRows(const Rows& m) : data(m.data), rows(m.rows), cols(m.cols), stride(m.stride) {}

  const float* row(int r) const { return data + static_cast<std::ptrdiff_t>(r) * stride; }
};

/// A weight matrix as stored in a model file: `outputs` rows of `inputs` values, row after row.
struct WeightView {
  tensor::DType dtype = tensor::DType::f32;
  int outputs = 0;
  int inputs = 0;
  const std::byte* data = nullptr;
};

/// A weight matrix in the layout that the kernels want. Does not own `data`.
struct PackedMatrix {
  tensor::DType dtype = tensor::DType::f32;  ///< of the file
  int outputs = 0;
  int inputs = 0;
  const std::byte* data = nullptr;
};

/// One linear operation: pieces that read the same input, their outputs one after the other.
struct LinearWeights {
  std::span<const PackedMatrix> pieces;
  std::span<const float> bias;  ///< empty, or one value per output
};

/// Weights of an rms_norm over whole rows.
struct RowNorm {
  std::span<const float> weight;
  float epsilon = 0;
};

/// cos and sin of every position's angles, made once at load in double precision.
struct RopeTable {
  int rotary_dim = 0;          ///< even, <= head_dim
  std::int64_t positions = 0;  ///< rows
  bool interleaved = false;    ///< pairs (2i, 2i+1) instead of (i, i + rotary_dim / 2)
  std::vector<float> cosines;  ///< [positions][rotary_dim / 2]
  std::vector<float> sines;
};

/// One sequence's cached blocks of one layer, ascending positions. A block holds `block_units`
/// units one after the other. Null for blocks wholly before the window.
struct KvBlocks {
  std::span<std::byte* const> k;
  std::span<std::byte* const> v;
};

/// Which rows of a step belong to which sequence: rows [row, row + count) are its positions
/// [first_position, first_position + count).
struct RowSpan {
  int row = 0;
  int count = 0;
  std::int64_t first_position = 0;
  KvBlocks kv;
};

struct CacheGeometry {
  tensor::UnitLayout unit;
  int block_units = 1;
};

struct AttentionArgs {
  ConstRows q;  ///< [rows][heads * head_dim], rotated
  Rows out;     ///< [rows][heads * head_dim]
  int heads = 0;
  float scale = 0;
  int window = 0;     ///< 0: full; else the query sees its last `window` positions, itself counted
  float softcap = 0;  ///< 0: none; else scores become softcap * tanh(score / softcap)
  CacheGeometry cache;
  std::span<const RowSpan> spans;
};

enum class Activation : std::uint8_t { silu, gelu_tanh };

/// The feed-forward part of a layer: x += post(down(act(gate(n)) * up(n))), n = norm(x).
struct FeedForward {
  RowNorm norm;
  LinearWeights gate_up;  ///< outputs: gate, then as many of up
  Activation activation = Activation::silu;
  LinearWeights down;
  std::span<const float> post_norm;  ///< empty: none; with the epsilon of `norm`
};

/// A kernel set bound to a thread pool. One thread calls it at a time (the engine thread). Outputs
/// may be the very rows of an input in rms_norm and gated; in linear and attention they may not.
class Kernels {
 public:
  virtual ~Kernels() = default;

  /// One of available_sets().
  virtual std::string_view set_name() const = 0;
  /// "ref-1", "lanes16-4" or "tiles16-1": name and revision of the numerics class.
  virtual std::string_view numerics_class() const = 0;

  /// Packed bytes depend on the weight and on numerics_class() alone: sets of one class share them.
  virtual std::size_t packed_bytes(const WeightView& weight) const = 0;
  /// Writes packed_bytes(weight) bytes to `out`, which is aligned to 64.
  virtual void pack(const WeightView& weight, std::byte* out) const = 0;

  /// out[r] = the weight's row ids[r], as float32, times `scale`. ids are in range (checked above).
  virtual void embed(const PackedMatrix& weight, std::span<const TokenId> ids, float scale,
                     Rows out) = 0;
  /// y[r][o] = sum over i of x[r][i] * w[o][i] (+ bias[o] when bias is not empty).
  virtual void linear(const PackedMatrix& weight, std::span<const float> bias, ConstRows x,
                      Rows y) = 0;
  /// y = linear(rms_norm(x)), with the bits of the two operations.
  virtual void norm_linear(const RowNorm& norm, const LinearWeights& weights, ConstRows x,
                           Rows y) = 0;
  /// y += linear(x), with the bits of the two operations.
  virtual void add_linear(const LinearWeights& weights, ConstRows x, Rows y) = 0;
  /// With the bits of rms_norm, linear, gated, linear, rms_norm (if any) and add.
  virtual void feed_forward(const FeedForward& layer, Rows x) = 0;
  /// y[r] = x[r] / sqrt(mean(x[r]^2) + epsilon) * weight, for each head_dim-wide part of a row
  /// when x.cols is a multiple of weight.size() (q/k norm), else for the whole row.
  virtual void rms_norm(ConstRows x, std::span<const float> weight, float epsilon, Rows y) = 0;
  /// Rotates x ([rows][heads * head_dim]) in place; row r has position positions[r].
  virtual void rope(Rows x, int head_dim, const RopeTable& table,
                    std::span<const std::int64_t> positions) = 0;
  /// Rounds k and v ([rows][kv_heads * head_dim]) to the cache dtype and writes them at their
  /// positions. The first write into a unit (position % 16 == 0) clears the unit before.
  virtual void write_kv(const CacheGeometry& cache, ConstRows k, ConstRows v,
                        std::span<const RowSpan> spans) = 0;
  /// Causal attention over the cache, which already holds the step's own rows. Blocks that hold a
  /// visible key must be there. Rows that no query sees may hold anything.
  virtual void attention(const AttentionArgs& args) = 0;
  /// out = act(gate) * up.
  virtual void gated(Activation activation, ConstRows gate, ConstRows up, Rows out) = 0;
  /// x += y.
  virtual void add(Rows x, ConstRows y) = 0;
  /// x = softcap * tanh(x / softcap); nothing when softcap is 0.
  virtual void soft_cap(Rows x, float softcap) = 0;

  /// XXH3-128 over the output bits of every operation on fixed inputs (odd shapes, denormals):
  /// equal for every set of a class on every machine, or the machine does not belong to the class.
  virtual Digest128 probe() = 0;
};

/// Sets that this processor can run: "ref", those of tiles16, those of lanes16, the fastest last.
std::vector<std::string_view> available_sets();

/// The fastest for weights of bf16, or of others: of tiles16 where the processor can multiply so.
std::string_view fastest_set(bool bf16_weights);

/// `set` is one of available_sets() or "cpu" for the fastest set of the class lanes16.
Result<std::unique_ptr<Kernels>> make_kernels(std::string_view set, ThreadPool& pool);

/// Dequantises `count` values (whole blocks) to float32 exactly as GGUF defines the type.
void dequantise(tensor::DType dtype, const std::byte* data, std::size_t count, float* out);

/// Sets flush-to-zero and denormals-are-zero on the calling thread; the pool does so on its own.
void set_engine_float_mode();

}  // namespace baton::kernels
