#include "lanes16/feed_forward.h"

#include <algorithm>

#include "baton/base/check.h"

namespace baton::kernels {
namespace {

/// Columns of gate and up that one task computes before it combines them.
constexpr int most_columns = 128;

}  // namespace

/// One call's matrices and intermediate values.
struct FeedForwardDriver::Parts {
  const FeedForward& layer;
  Rows x;
  int width;  ///< columns of gate, and of up
  PanelShape gate_up_shape;
  PanelShape down_shape;
  PreparedInput input;      ///< of gate_up
  PreparedInput activated;  ///< the input of down
  LinearTask gate_up;
  LinearTask down;
  Rows output;  ///< of down, where a norm follows
};

bool FeedForwardDriver::fits(const FeedForward& layer) {
  if (layer.gate_up.pieces.size() != 1 || layer.down.pieces.size() != 1) return false;
  // The gate's last panel holds nothing of up, and columns are whole groups of the next input.
  return layer.gate_up.pieces[0].outputs / 2 % group_inputs == 0;
}

void FeedForwardDriver::run(const FeedForward& layer, Rows x) {
  const PackedMatrix& gate_up = layer.gate_up.pieces[0];
  const PackedMatrix& down = layer.down.pieces[0];
  Parts p{layer, x, gate_up.outputs / 2, {}, {}, {}, {}, {}, {}, {}};
  BATON_CHECK(gate_up.inputs == x.cols && down.inputs == p.width && down.outputs == x.cols);
  if (x.rows == 0) return;
  p.gate_up_shape = panel_shape(gate_up.dtype, gate_up.outputs, gate_up.inputs);
  p.down_shape = panel_shape(down.dtype, down.outputs, down.inputs);
  p.input = PreparedInput(ops_, p.gate_up_shape, x.rows);
  p.input.use(input_.bytes(p.input.bytes()));
  p.activated = PreparedInput(ops_, p.down_shape, x.rows);
  p.activated.use(activated_.bytes(p.activated.bytes()));
  p.gate_up = whole_task(p.gate_up_shape, gate_up.data, layer.gate_up.bias, p.input.view(), x);
  p.output = layer.post_norm.empty() ? x : output_.rows(x.rows, x.cols);
  p.down = whole_task(p.down_shape, down.data, layer.down.bias, p.activated.view(), p.output);
  p.down.add = layer.post_norm.empty();
  if (RowChunks::worthwhile(x.rows, pool_.threads(), p.gate_up_shape, ops_)) {
    run_chunks(p);
  } else {
    run_panels(p);
  }
}

/// Columns [first, first + count) of act(gate) * up for some rows, prepared as the input of down.
void FeedForwardDriver::columns(const Parts& p, int row_begin, int row_end, int first,
                                int count) const {
  alignas(64) float gate[max_task_rows * most_columns];
  alignas(64) float up[max_task_rows * most_columns];
  LinearTask task = p.gate_up;
  task.row_begin = row_begin;
  task.row_end = row_end;
  task.y_row = row_begin;
  for (float* to : {gate, up}) {
    task.y_output = to == gate ? first : p.width + first;
    task.y = {to, row_end - row_begin, count, count};
    task.panel_begin = task.y_output / lanes;
    task.panel_end = (task.y_output + count) / lanes;
    ops_.linear(task);
  }
  for (int r = row_begin; r < row_end; ++r) {
    float* values = gate + static_cast<std::ptrdiff_t>(r - row_begin) * count;
    ops_.gated(p.layer.activation, values, up + (values - gate), count, values);
    p.activated.write(r, first, count, values);
  }
}

void FeedForwardDriver::run_chunks(const Parts& p) {
  const RowChunks chunks(p.x.rows, p.gate_up.x.block_rows, pool_.threads());
  const Rows normed = normed_.rows(chunks.count(), p.x.cols);
  pool_.run(chunks.count(), [&](int i) {
    const int begin = chunks.begin(i);
    const int end = chunks.begin(i + 1);
    linear_.prepare_rows(p.input, p.x, &p.layer.norm, begin, end, normed.row(i));
    for (int first = 0; first < p.width; first += most_columns) {
      columns(p, begin, end, first, std::min(most_columns, p.width - first));
    }
    LinearTask down = p.down;
    down.row_begin = begin;
    down.row_end = end;
    ops_.linear(down);
    finish_rows(p, begin, end);
  });
}

void FeedForwardDriver::run_panels(const Parts& p) {
  linear_.prepare_all(p.input, p.x, &p.layer.norm);
  // Some tasks a thread, so that none waits long for the last.
  const int groups = p.width / group_inputs;
  const int step =
      group_inputs * std::clamp(groups / (4 * pool_.threads()), 1, most_columns / group_inputs);
  const int column_tasks = (p.width + step - 1) / step;
  const int rows_per_task =
      p.gate_up.x.block_rows * std::max(1, max_task_rows / p.gate_up.x.block_rows);
  const int row_tasks = (p.x.rows + rows_per_task - 1) / rows_per_task;
  pool_.run(column_tasks * row_tasks, [&](int i) {
    const int begin = i % row_tasks * rows_per_task;
    const int first = i / row_tasks * step;
    columns(p, begin, std::min(p.x.rows, begin + rows_per_task), first,
            std::min(step, p.width - first));
  });
  linear_.split_panels(p.down);
  finish_rows(p, 0, p.x.rows);
}

/// x += norm(output), where there is a norm; else down has been added already.
void FeedForwardDriver::finish_rows(const Parts& p, int begin, int end) const {
  if (p.layer.post_norm.empty()) return;
  for (int r = begin; r < end; ++r) {
    float* row = p.output.row(r);
    ops_.rms_norm(row, p.layer.post_norm.data(), p.x.cols, p.layer.norm.epsilon, row);
    ops_.add(p.x.row(r), row, p.x.cols);
  }
}

}  // namespace baton::kernels
