#include "composed.h"

#include "baton/base/check.h"

namespace baton::kernels {
namespace {

Rows columns(Rows rows, int first, int count) {
  return {rows.data + first, rows.rows, count, rows.stride};
}

int outputs_of(const LinearWeights& weights) {
  int outputs = 0;
  for (const PackedMatrix& piece : weights.pieces) outputs += piece.outputs;
  return outputs;
}

}  // namespace

void Composed::all_pieces(const LinearWeights& weights, ConstRows x, Rows y) {
  int first = 0;
  for (const PackedMatrix& piece : weights.pieces) {
    std::span<const float> bias = weights.bias;
    if (!bias.empty()) {
      bias = bias.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(piece.outputs));
    }
    linear(piece, bias, x, columns(y, first, piece.outputs));
    first += piece.outputs;
  }
  BATON_CHECK(first == y.cols);
}

void Composed::norm_linear(const RowNorm& norm, const LinearWeights& weights, ConstRows x, Rows y) {
  const Rows normed = normed_.rows(x.rows, x.cols);
  rms_norm(x, norm.weight, norm.epsilon, normed);
  all_pieces(weights, normed, y);
}

void Composed::add_linear(const LinearWeights& weights, ConstRows x, Rows y) {
  const Rows projection = projection_.rows(y.rows, y.cols);
  all_pieces(weights, x, projection);
  add(y, projection);
}

void Composed::feed_forward(const FeedForward& layer, Rows x) {
  const Rows gate_up = gate_up_.rows(x.rows, outputs_of(layer.gate_up));
  norm_linear(layer.norm, layer.gate_up, x, gate_up);
  const int width = gate_up.cols / 2;
  const Rows activated = activated_.rows(x.rows, width);
  gated(layer.activation, columns(gate_up, 0, width), columns(gate_up, width, width), activated);
  if (layer.post_norm.empty()) return add_linear(layer.down, activated, x);
  const Rows projection = projection_.rows(x.rows, x.cols);
  all_pieces(layer.down, activated, projection);
  rms_norm(projection, layer.post_norm, layer.norm.epsilon, projection);
  add(x, projection);
}

}  // namespace baton::kernels
