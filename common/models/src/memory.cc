#include "baton/models/memory.h"

#include <algorithm>
#include <limits>
#include <string>

#include "baton/kernels/workspace.h"
#include "baton/models/rope_table.h"
#include "baton/weights/names.h"

#include "transformer.h"
#include "workspace.h"

namespace baton::models {
namespace {

int as_int(std::int64_t value) {
  return static_cast<int>(std::min<std::int64_t>(value, std::numeric_limits<int>::max()));
}

}  // namespace

std::size_t position_table_bytes(const ModelConfig& config, std::int64_t context_length) {
  std::size_t bytes = 0;
  for (const RopeConfig& rope : config.ropes) bytes += rope_table_bytes(rope, context_length);
  return bytes;
}

std::size_t most_step_bytes(const ModelConfig& config, const kernels::Kernels& kernels,
                            const StepSize& step) {
  kernels::WorkspaceShape shape;
  shape.threads = step.threads;
  shape.rows = as_int(step.rows);
  shape.feed_forward_rows = as_int(std::min<std::int64_t>(step.rows, ffn_chunk_rows));
  shape.positions = step.positions;
  shape.width = config.width;
  shape.feed_forward_width = config.ffn_width;
  shape.heads = config.heads;
  shape.kv_heads = config.kv_heads;
  shape.head_dim = config.head_dim;
  shape.post_norms = config.post_norms;
  shape.mixed_gate_up = step.mixed_gate_up;
  return Workspace::most_bytes(config, step.rows, step.logits_rows) +
         kernels::most_workspace_bytes(kernels, shape);
}

bool mixed_gate_up(const modelfile::ModelFile& file, const ModelConfig& config) {
  const auto tensor = [&](weights::Part part, int layer) -> const modelfile::TensorInfo* {
    const auto name = weights::tensor_name(config.family, part, layer);
    return name ? file.find_tensor(*name) : nullptr;
  };
  for (int layer = 0; layer < config.layers; ++layer) {
    const auto* gate = tensor(weights::Part::gate, layer);
    const auto* up = tensor(weights::Part::up, layer);
    if (gate != nullptr && up != nullptr && gate->type != up->type) return true;
  }
  return false;
}

}  // namespace baton::models
