// What a set of the class lanes16 must provide: the arithmetic. How work is split over threads is
// the driver's (driver.cc), the same for all, and changes no bit.
#pragma once

#include "lanes16/panel.h"

namespace baton::kernels {

/// What belongs to one row's group of 32 quantised activations.
struct alignas(16) GroupScale {
  float scale;       ///< value = scale * int8
  float scaled_sum;  ///< scale * sum of the int8, for weights with minima
  /// Where an integer sum starts: minus the weights' bias times the sum of the int8, of the whole
  /// group or, for formats with halves, of each half.
  std::int32_t start[2];
};
static_assert(sizeof(GroupScale) == 16);

/// Rows of a linear layer's input in the form that the weight's arithmetic wants. Rows come in
/// blocks of block_rows (the last may be shorter, its memory is not). One step of a block:
///   integers  [row][32] int8, then [row] GroupScale
///   f32, f16  [row] floats
///   bf16      inputs rounded to bf16, as the set wants them (Bf16Inputs)
struct Activations {
  const std::byte* data = nullptr;
  int block_rows = 0;
  std::size_t step_bytes = 0;
  std::size_t block_bytes = 0;

  /// The first step of the block that `row` is in.
  const std::byte* block(int row) const {
    return data + static_cast<std::size_t>(row / block_rows) * block_bytes;
  }
};

/// A step of the inputs of bf16 weights.
enum class Bf16Inputs : std::uint8_t {
  words,   ///< [row] a pair: a word (even, odd)
  floats,  ///< [row] a pair: two floats (odd, even)
  tiles    ///< [row][16] pairs as words: bf16_tile_inputs inputs
};

/// Where the groups of one row go; group g is g * step_bytes further on.
struct QuantisedRow {
  std::int8_t* values = nullptr;
  GroupScale* scales = nullptr;
  std::size_t step_bytes = 0;
};

/// Most rows of a task: what a set keeps of them on its stack is bounded by it.
inline constexpr int max_task_rows = 192;

/// Outputs of panels [panel_begin, panel_end) for rows [row_begin, row_end), at most max_task_rows;
/// row_begin is the first row of a block.
struct LinearTask {
  const PanelShape* shape = nullptr;
  const std::byte* packed = nullptr;
  const float* bias = nullptr;  ///< null: none
  Activations x;
  Rows y;  ///< its first row and column are row y_row, output y_output
  int y_row = 0;
  int y_output = 0;
  bool add = false;  ///< y += instead of y =
  int row_begin = 0;
  int row_end = 0;
  int panel_begin = 0;
  int panel_end = 0;

  float* output(int row, int o) const { return y.row(row - y_row) + (o - y_output); }
};

/// cos and sin of one position.
struct RopeRow {
  const float* cosines = nullptr;
  const float* sines = nullptr;
  int pairs = 0;
  bool interleaved = false;
};

/// Most queries of a task, and most values (queries times padded head_dim) of their rows.
inline constexpr int max_queries = 192;
inline constexpr int max_query_values = 24 * max_head_dim;

/// One query head of one row; it sees keys [first, last].
struct Query {
  const float* q = nullptr;
  float* out = nullptr;
  std::int64_t first = 0;
  std::int64_t last = 0;
};

/// Queries of consecutive rows of one sequence that share one cached head, ascending rows.
struct AttendTask {
  CacheGeometry cache;
  KvBlocks kv;
  std::size_t head_offset = 0;  ///< of the cached head in its unit
  const Query* queries = nullptr;
  int count = 0;
  float scale = 0;
  float softcap = 0;
};

/// What a (capped) score is multiplied by: weights are powers of 2.
inline float exponent_factor(const AttendTask& task) {
  return task.softcap > 0 ? exp_log2e : task.scale * exp_log2e;
}

/// Softmax in progress of the queries of a task: weights relative to 2^max.
struct SoftmaxState {
  float* max = nullptr;       ///< [count]
  float* sum = nullptr;       ///< [count]
  float* out = nullptr;       ///< [count][stride], not yet divided by sum
  std::ptrdiff_t stride = 0;  ///< head_dim rounded up to lanes
};

/// Whether a query sees any key of [begin, end).
inline bool sees(const Query& query, std::int64_t begin, std::int64_t end) {
  return query.first < end && query.last >= begin;
}

struct Lanes16Ops {
  std::string_view name;
  std::string_view numerics_class;
  /// Rows of a block of activations, the most that one tile takes.
  int block_rows;
  /// So many rows make a block of their own size; more fill whole blocks.
  int few_rows;
  Bf16Inputs bf16_inputs;
  /// For weights of `format`.
  void (*quantise_row)(const float* x, int groups, const IntegerFormat& format,
                       const QuantisedRow& out);
  /// x rounded to bf16: (n + 1) / 2 pairs of one word, or two (floats), `stride` pairs apart.
  void (*round_apart)(const float* x, int n, std::uint32_t* out, std::ptrdiff_t stride);
  void (*linear)(const LinearTask& task);
  void (*rms_norm)(const float* x, const float* weight, int n, float epsilon, float* y);
  void (*rope_head)(float* head, const RopeRow& row);
  void (*gated)(Activation activation, const float* gate, const float* up, int n, float* out);
  void (*add)(float* x, const float* y, int n);
  void (*soft_cap)(float* x, int n, float softcap);
  /// Computes one segment alone into `state`, for each query that sees any of its keys.
  void (*attend_segment)(const AttendTask& task, std::int64_t segment, const SoftmaxState& state);
  /// total (+)= part, for one query.
  void (*merge)(const SoftmaxState& total, const SoftmaxState& part, int query, int head_dim);
  /// out = total.out / total.sum, for one query.
  void (*finish)(const SoftmaxState& total, int query, int head_dim, float* out);
};

const Lanes16Ops& spec_ops();
/// The definition of the class tiles16.
const Lanes16Ops& spec_tiles_ops();

/// `ops` must outlive the kernels.
std::unique_ptr<Kernels> make_lanes16(const Lanes16Ops& ops, ThreadPool& pool);

}  // namespace baton::kernels
