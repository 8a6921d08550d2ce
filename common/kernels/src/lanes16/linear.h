// Linear layers of the class: prepares the input and cuts the product into tasks. No arithmetic
// with an order is done here.
#pragma once

#include "lanes16/prepare.h"
#include "scratch.h"

namespace baton::kernels {

/// How rows are cut into chunks when each thread takes its own rows through all of a layer: whole
/// blocks, as equal as can be, of max_task_rows rows at most.
class RowChunks {
 public:
  RowChunks(int rows, int block_rows, int threads);

  /// Whether there are enough rows for it: each chunk reads all weights.
  static bool worthwhile(int rows, int threads, const PanelShape& weights, const Lanes16Ops& ops);

  int count() const { return count_; }
  /// Chunk i is rows [begin(i), begin(i + 1)).
  int begin(int i) const;

 private:
  int rows_;
  int block_rows_;
  int blocks_;
  int count_;
};

struct LinearJob {
  PackedMatrix weight;
  std::span<const float> bias;
  ConstRows x;
  const RowNorm* norm = nullptr;  ///< of x; null: none
  Rows y;
  bool add = false;  ///< y += instead of y =
};

class LinearDriver {
 public:
  LinearDriver(const Lanes16Ops& ops, ThreadPool& pool) : ops_(ops), pool_(pool) {}

  void run(const LinearJob& job);

  /// Prepares rows [begin, end) of x, through the norm if there is one. `row` holds x.cols values.
  void prepare_rows(const PreparedInput& to, ConstRows x, const RowNorm* norm, int begin, int end,
                    float* row) const;
  /// All rows, on all threads where they are many.
  void prepare_all(const PreparedInput& to, ConstRows x, const RowNorm* norm);
  /// Cuts a product over panels, and over rows where they are too many for one task.
  void split_panels(const LinearTask& all);

 private:
  void run_chunks(const LinearTask& all, const PreparedInput& input, const LinearJob& job);

  const Lanes16Ops& ops_;
  ThreadPool& pool_;
  Scratch prepared_;
  Scratch normed_;
};

/// The whole product as one task.
LinearTask whole_task(const PanelShape& shape, const std::byte* packed, std::span<const float> bias,
                      const Activations& x, Rows y);

}  // namespace baton::kernels
