// What a model takes beside its weights, known before any of it is taken.
#pragma once

#include <cstddef>
#include <cstdint>

#include "baton/kernels/kernels.h"
#include "baton/modelfile/model_file.h"
#include "baton/models/config.h"

namespace baton::models {

/// The largest step of an engine and what computes it.
struct StepSize {
  std::int64_t rows = 0;
  std::int64_t logits_rows = 0;  ///< most rows whose logits are wanted
  std::int64_t positions = 0;    ///< most cached positions of a sequence
  int threads = 1;
  bool mixed_gate_up = false;  ///< see mixed_gate_up()
};

/// Of all tables of rotary positions.
std::size_t position_table_bytes(const ModelConfig& config, std::int64_t context_length);

/// An upper bound of the heap that steps of that size keep: rows between the operations, logits,
/// and what `kernels` keeps. Lists of rows, blocks and sequences are small and left out.
std::size_t most_step_bytes(const ModelConfig& config, const kernels::Kernels& kernels,
                            const StepSize& step);

/// Whether gate and up of some layer are stored in different types, which makes steps larger.
bool mixed_gate_up(const modelfile::ModelFile& file, const ModelConfig& config);

}  // namespace baton::models
