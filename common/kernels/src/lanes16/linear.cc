#include "lanes16/linear.h"

#include <algorithm>

#include "baton/base/check.h"

#include "lanes16/each_row.h"

namespace baton::kernels {
namespace {

int divided_up(int n, int by) { return (n + by - 1) / by; }

/// Writes row `row` of x to its place in a block.
void prepare_row(const Lanes16Ops& ops, const PanelShape& shape, const float* x, int place,
                 const Activations& to, std::byte* block) {
  if (shape.integer()) {
    std::byte* scales = block + static_cast<std::size_t>(to.block_rows) * group_inputs;
    const QuantisedRow out{reinterpret_cast<std::int8_t*>(block) + place * group_inputs,
                           reinterpret_cast<GroupScale*>(scales) + place, to.step_bytes};
    ops.quantise_row(x, shape.steps, shape.format, out);
  } else if (shape.arithmetic == Arithmetic::bf16) {
    ops.round_apart(x, shape.inputs, reinterpret_cast<std::uint32_t*>(block) + place,
                    to.block_rows);
  } else {
    for (int i = 0; i < shape.inputs; ++i) {
      reinterpret_cast<float*>(block)[i * to.block_rows + place] = x[i];
    }
  }
}

}  // namespace

void LinearDriver::run(const PackedMatrix& weight, std::span<const float> bias, ConstRows x,
                       Rows y) {
  const PanelShape shape = panel_shape(weight.dtype, weight.outputs, weight.inputs);
  BATON_CHECK(x.cols == weight.inputs && y.cols == weight.outputs && x.rows == y.rows);
  BATON_CHECK(bias.empty() || bias.size() == static_cast<std::size_t>(weight.outputs));
  if (x.rows == 0) return;
  LinearTask all;
  all.shape = &shape;
  all.packed = weight.data;
  all.bias = bias.empty() ? nullptr : bias.data();
  all.x = prepare(shape, x);
  all.y = y;
  all.row_end = x.rows;
  all.panel_end = shape.panels;
  split(all);
}

Activations LinearDriver::prepare(const PanelShape& shape, ConstRows x) {
  Activations a;
  a.block_rows = std::min(ops_.block_rows, x.rows);
  a.step_bytes = static_cast<std::size_t>(a.block_rows) *
                 (shape.integer() ? group_inputs + sizeof(GroupScale) : sizeof(std::uint32_t));
  // Blocks begin on a cache line.
  a.block_bytes = (static_cast<std::size_t>(shape.steps) * a.step_bytes + 63) / 64 * 64;
  const int blocks = divided_up(x.rows, a.block_rows);
  std::byte* data = values_.get(static_cast<std::size_t>(blocks) * a.block_bytes);
  a.data = data;
  each_row(pool_, x.rows, x.cols, [&](int r) {
    prepare_row(ops_, shape, x.row(r), r % a.block_rows, a,
                data + static_cast<std::size_t>(r / a.block_rows) * a.block_bytes);
  });
  return a;
}

/// Cuts a product into tasks: over panels, and over rows where they are many.
void LinearDriver::split(const LinearTask& all) {
  // Enough rows that unpacking the weights again for each task costs nothing.
  const int rows_per_task = all.x.block_rows * std::max(1, 192 / all.x.block_rows);
  const int row_tasks = divided_up(all.row_end, rows_per_task);
  const int wanted = (all.row_end == 1 ? 2 : 4) * pool_.threads();
  const int panels_per_task = std::max(1, all.panel_end * row_tasks / wanted);
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
