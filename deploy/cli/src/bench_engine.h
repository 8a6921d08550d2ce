// `baton bench engine`: both phases of the engine in this process, beside the machine's limits.
#pragma once

#include <string>

#include "baton/worker/config.h"

namespace baton::cli {

struct BenchEngineOptions {
  worker::WorkerConfig engine;
  std::string cells;  ///< empty: those that the model's context allows of the usual ones
  int repeats = 3;
  std::int64_t decode_steps = 32;
  bool json = false;
};

/// One line a cell (or one JSON object a line); returns the exit code.
int bench_engine(const BenchEngineOptions& options);

}  // namespace baton::cli
