// Rows one by one, on all threads when there is enough to do.
#pragma once

#include <algorithm>
#include <cstdint>

#include "baton/kernels/thread_pool.h"

namespace baton::kernels {

/// Below this a second thread costs more than it saves.
inline constexpr int values_worth_sharing = 16384;

template <typename Task>
void each_row(ThreadPool& pool, int rows, int cols, const Task& task) {
  if (rows <= 1 || static_cast<std::int64_t>(rows) * cols < values_worth_sharing) {
    for (int r = 0; r < rows; ++r) task(r);
    return;
  }
  const int rows_per_task = std::max(1, 4096 / std::max(1, cols));
  pool.run((rows + rows_per_task - 1) / rows_per_task, [&](int i) {
    const int end = std::min(rows, (i + 1) * rows_per_task);
    for (int r = i * rows_per_task; r < end; ++r) task(r);
  });
}

}  // namespace baton::kernels
