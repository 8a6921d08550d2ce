#include "transformer.h"

#include <algorithm>
#include <utility>

#include "baton/base/check.h"
#include "baton/models/memory.h"

namespace baton::models {
namespace {

kernels::Rows columns(kernels::Rows rows, int first, int count) {
  return {rows.data + first, rows.rows, count, rows.stride};
}

kernels::Rows slice(kernels::Rows rows, int first, int count) {
  return {rows.row(first), count, rows.cols, rows.stride};
}

}  // namespace

Transformer::Transformer(ModelConfig config, weights::ModelWeights weights,
                         std::vector<kernels::RopeTable> ropes, kernels::Kernels& kernels)
    : config_(std::move(config)),
      weights_(std::move(weights)),
      ropes_(std::move(ropes)),
      kernels_(kernels) {
  BATON_CHECK(ropes_.size() == config_.ropes.size() && !ropes_.empty());
}

std::size_t Transformer::weight_bytes() const {
  return weights_.memory.size() + workspace_.bytes() +
         position_table_bytes(config_, ropes_.front().positions);
}

Result<StepOutput> Transformer::forward(std::span<const SequenceRows> batch, kvcache::Arena& arena,
                                        StepObserver* observer) {
  BATON_TRY(check_batch(config_, ropes_.front().positions, batch, arena));
  rows_.begin(batch);
  Step step{batch, arena, observer, workspace_.hidden.get(rows_.rows(), config_.width)};
  if (rows_.rows() > 0) {
    kernels_.embed(weights_.token_embedding, rows_.tokens(), config_.embedding_scale, step.hidden);
  }
  for (int layer = 0; layer < config_.layers && rows_.rows() > 0; ++layer) {
    attention(step, layer);
    feed_forward(step, layer);
    drop_cancelled(step);
  }
  return logits(step);
}

void Transformer::attention(Step& step, int layer) {
  const auto index = static_cast<std::size_t>(layer);
  const weights::LayerWeights& weights = weights_.layers[index];
  const int rows = rows_.rows();
  const int q_width = config_.heads * config_.head_dim;
  const int kv_width = config_.kv_heads * config_.head_dim;
  const kernels::Rows qkv = workspace_.qkv.get(rows, q_width + 2 * kv_width);
  kernels::Rows q = columns(qkv, 0, q_width);
  const kernels::Rows k = columns(qkv, q_width, kv_width);
  const kernels::Rows v = columns(qkv, q_width + kv_width, kv_width);

  kernels_.norm_linear({weights.attention_norm, config_.norm_epsilon}, weights.qkv.view(),
                       step.hidden, qkv);
  if (config_.qk_norm) {
    kernels_.rms_norm(q, weights.q_norm, config_.norm_epsilon, q);
    kernels_.rms_norm(k, weights.k_norm, config_.norm_epsilon, k);
  }
  const kernels::RopeTable& rope = ropes_[static_cast<std::size_t>(config_.rope_of_layer[index])];
  kernels_.rope(q, config_.head_dim, rope, rows_.positions());
  kernels_.rope(k, config_.head_dim, rope, rows_.positions());

  auto spans = rows_.spans(config_, layer, step.batch, step.arena);
  const kernels::CacheGeometry cache{step.arena.config().unit, step.arena.config().block_units};
  kernels_.write_kv(cache, k, v, spans);
  if (step.observer != nullptr) step.observer->layer_done(layer);
  if (layer == config_.layers - 1) {
    rows_.keep_wanted(step.batch, step.hidden, q);
    step.hidden.rows = q.rows = rows_.rows();
    if (rows_.rows() == 0) return;
    spans = rows_.spans(config_, layer, step.batch, step.arena);
  }
  const kernels::Rows out = workspace_.attention.get(rows_.rows(), q_width);
  const int window = config_.groups[static_cast<std::size_t>(config_.group_of_layer[index])].window;
  kernels_.attention({q, out, config_.heads, config_.attention_scale, window,
                      config_.attention_softcap, cache, spans});
  if (config_.post_norms) {
    const kernels::Rows projection = workspace_.projection.get(rows_.rows(), config_.width);
    linear(weights.attention_output, out, projection);
    kernels_.rms_norm(projection, weights.post_attention_norm, config_.norm_epsilon, projection);
    kernels_.add(step.hidden, projection);
  } else {
    kernels_.add_linear(weights.attention_output.view(), out, step.hidden);
  }
}

void Transformer::feed_forward(Step& step, int layer) {
  const weights::LayerWeights& weights = weights_.layers[static_cast<std::size_t>(layer)];
  const kernels::FeedForward part{{weights.ffn_norm, config_.norm_epsilon},
                                  weights.gate_up.view(),
                                  config_.activation,
                                  weights.down.view(),
                                  weights.post_ffn_norm};
  for (int first = 0; first < rows_.rows(); first += ffn_chunk_rows) {
    const int count = std::min(ffn_chunk_rows, rows_.rows() - first);
    kernels_.feed_forward(part, slice(step.hidden, first, count));
  }
}

void Transformer::linear(const weights::Linear& weights, kernels::ConstRows x, kernels::Rows y) {
  int first = 0;
  for (const kernels::PackedMatrix& piece : weights.pieces) {
    std::span<const float> bias = weights.bias;
    if (!bias.empty()) {
      bias = bias.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(piece.outputs));
    }
    kernels_.linear(piece, bias, x, columns(y, first, piece.outputs));
    first += piece.outputs;
  }
}

void Transformer::drop_cancelled(Step& step) {
  if (step.observer == nullptr) return;
  if (rows_.drop_cancelled(*step.observer, step.hidden)) step.hidden.rows = rows_.rows();
}

StepOutput Transformer::logits(const Step& step) {
  StepOutput output;
  output.first_logits_row.assign(step.batch.size(), -1);
  for (const StepRows::Live& live : rows_.live()) output.first_logits_row[live.sequence] = live.row;
  const kernels::Rows result = workspace_.logits.get(rows_.rows(), config_.vocabulary);
  output.logits = result;
  if (rows_.rows() == 0) return output;
  kernels_.norm_linear({weights_.output_norm, config_.norm_epsilon}, weights_.output.view(),
                       step.hidden, result);
  if (config_.logit_softcap != 0) kernels_.soft_cap(result, config_.logit_softcap);
  return output;
}

}  // namespace baton::models
