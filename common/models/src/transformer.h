// The forward pass of a decoder-only transformer, whatever its family.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "baton/models/model.h"
#include "baton/weights/model_weights.h"

#include "step_rows.h"
#include "workspace.h"

namespace baton::models {

/// Rows of the feed-forward part that are computed together: enough that reading the weights again
/// costs nothing, few enough that the wide intermediate rows of a long prompt stay small.
inline constexpr int ffn_chunk_rows = 512;

class Transformer final : public Model {
 public:
  /// One table per entry of config.ropes, each with the same number of positions.
  Transformer(ModelConfig config, weights::ModelWeights weights,
              std::vector<kernels::RopeTable> ropes, kernels::Kernels& kernels);

  const ModelConfig& config() const override { return config_; }
  std::size_t weight_bytes() const override;
  bool weights_shared() const override { return weights_.memory.shared(); }
  Result<StepOutput> forward(std::span<const SequenceRows> batch, kvcache::Arena& arena,
                             StepObserver* observer) override;

 private:
  /// One step's view of the arguments of forward().
  struct Step {
    std::span<const SequenceRows> batch;
    kvcache::Arena& arena;
    StepObserver* observer;
    kernels::Rows hidden;
  };

  void attention(Step& step, int layer);
  void feed_forward(Step& step, int layer);
  void linear(const weights::Linear& weights, kernels::ConstRows x, kernels::Rows y);
  void drop_cancelled(Step& step);
  StepOutput logits(const Step& step);

  ModelConfig config_;
  weights::ModelWeights weights_;
  std::vector<kernels::RopeTable> ropes_;
  kernels::Kernels& kernels_;
  StepRows rows_;
  Workspace workspace_;
};

}  // namespace baton::models
