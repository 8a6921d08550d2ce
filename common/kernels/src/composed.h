// Operations made of others, one after the other. Sets that fuse them give the same bits.
#pragma once

#include "scratch.h"

namespace baton::kernels {

class Composed : public Kernels {
 public:
  void norm_linear(const RowNorm& norm, const LinearWeights& weights, ConstRows x, Rows y) override;
  void add_linear(const LinearWeights& weights, ConstRows x, Rows y) override;
  void feed_forward(const FeedForward& layer, Rows x) override;

 private:
  void all_pieces(const LinearWeights& weights, ConstRows x, Rows y);

  Scratch normed_;
  Scratch gate_up_;
  Scratch activated_;
  Scratch projection_;
};

}  // namespace baton::kernels
