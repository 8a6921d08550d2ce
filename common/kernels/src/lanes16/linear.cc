#include "lanes16/linear.h"

#include <algorithm>

#include "baton/base/check.h"

#include "lanes16/each_row.h"

namespace baton::kernels {
namespace {

// Rows a thread from which on reading all weights once per chunk costs less than a barrier and
// than passing the rows from thread to thread: of weights that stay in a core's cache, and of
// larger ones.
constexpr int rows_worth_a_chunk = 48;
constexpr int rows_worth_a_large_chunk = 128;
constexpr std::size_t large_weights = 2 << 20;
// Panels of a task where there are several for different rows of the same panels, one after the
// other: the later ones find the weights in a cache.
constexpr int most_shared_panels = 8;

int divided_up(int n, int by) { return (n + by - 1) / by; }

}  // namespace

RowChunks::RowChunks(int rows, int block_rows, int threads)
    : rows_(rows), block_rows_(block_rows), blocks_(divided_up(rows, block_rows)) {
  const int most = std::max(1, max_task_rows / block_rows);
  count_ = std::min(blocks_, threads * divided_up(blocks_, threads * most));
}

bool RowChunks::worthwhile(int rows, int threads, const PanelShape& weights,
                           const Lanes16Ops& ops) {
  const bool large = weights.bytes() > large_weights;
  // Tiles of bf16 are multiplied about as fast as memory brings them: they are read once.
  if (large && bf16_in_tiles(weights, ops)) return false;
  return rows / threads >= (large ? rows_worth_a_large_chunk : rows_worth_a_chunk);
}

int RowChunks::begin(int i) const {
  const std::int64_t block = static_cast<std::int64_t>(blocks_) * i / count_;
  return std::min(rows_, static_cast<int>(block) * block_rows_);
}

LinearTask whole_task(const PanelShape& shape, const std::byte* packed, std::span<const float> bias,
                      const Activations& x, Rows y) {
  LinearTask all;
  all.shape = &shape;
  all.packed = packed;
  all.bias = bias.empty() ? nullptr : bias.data();
  all.x = x;
  all.y = y;
  all.row_end = y.rows;
  all.panel_end = shape.panels;
  return all;
}

void LinearDriver::run(const LinearJob& job) {
  const PackedMatrix& weight = job.weight;
  const PanelShape shape = panel_shape(weight.dtype, weight.outputs, weight.inputs);
  const int rows = job.x.rows;
  BATON_CHECK(job.x.cols == weight.inputs && job.y.cols == weight.outputs && rows == job.y.rows);
  BATON_CHECK(job.bias.empty() || job.bias.size() == static_cast<std::size_t>(weight.outputs));
  if (rows == 0) return;
  PreparedInput input(ops_, shape, rows);
  input.use(prepared_.bytes(input.bytes()));
  LinearTask all = whole_task(shape, weight.data, job.bias, input.view(), job.y);
  all.add = job.add;
  if (RowChunks::worthwhile(rows, pool_.threads(), shape, ops_)) {
    run_chunks(all, input, job);
  } else {
    prepare_all(input, job.x, job.norm);
    split_panels(all);
  }
}

void LinearDriver::run_chunks(const LinearTask& all, const PreparedInput& input,
                              const LinearJob& job) {
  const RowChunks chunks(all.row_end, all.x.block_rows, pool_.threads());
  const Rows normed = normed_.rows(job.norm == nullptr ? 0 : chunks.count(), job.x.cols);
  pool_.run(chunks.count(), [&](int i) {
    LinearTask task = all;
    task.row_begin = chunks.begin(i);
    task.row_end = chunks.begin(i + 1);
    prepare_rows(input, job.x, job.norm, task.row_begin, task.row_end,
                 job.norm == nullptr ? nullptr : normed.row(i));
    ops_.linear(task);
  });
}

void LinearDriver::prepare_rows(const PreparedInput& to, ConstRows x, const RowNorm* norm,
                                int begin, int end, float* row) const {
  for (int r = begin; r < end; ++r) {
    const float* values = x.row(r);
    if (norm != nullptr) {
      ops_.rms_norm(values, norm->weight.data(), x.cols, norm->epsilon, row);
      values = row;
    }
    to.write(r, 0, x.cols, values);
  }
}

void LinearDriver::prepare_all(const PreparedInput& to, ConstRows x, const RowNorm* norm) {
  const Rows normed = normed_.rows(norm == nullptr ? 0 : x.rows, x.cols);
  each_row(pool_, x.rows, x.cols, [&](int r) {
    prepare_rows(to, x, norm, r, r + 1, norm == nullptr ? nullptr : normed.row(r));
  });
}

void LinearDriver::split_panels(const LinearTask& all) {
  const int rows_per_task = all.x.block_rows * std::max(1, max_task_rows / all.x.block_rows);
  const int row_tasks = divided_up(all.row_end, rows_per_task);
  const int wanted = (all.row_end == 1 ? 2 : 4) * pool_.threads();
  const int most = row_tasks > 1 ? most_shared_panels : all.panel_end;
  const int panels_per_task = std::clamp(all.panel_end * row_tasks / wanted, 1, most);
  const int panel_tasks = divided_up(all.panel_end, panels_per_task);
  const auto run = [&](int i) {
    LinearTask task = all;
    task.row_begin = i % row_tasks * rows_per_task;
    task.row_end = std::min(all.row_end, task.row_begin + rows_per_task);
    task.panel_begin = i / row_tasks * panels_per_task;
    task.panel_end = std::min(all.panel_end, task.panel_begin + panels_per_task);
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

}  // namespace baton::kernels
