// The feed-forward part of a layer. Gate and up never stand in memory as a whole: some columns of
// both are computed, combined and prepared as the input of `down` while they are in cache.
#pragma once

#include "lanes16/linear.h"

namespace baton::kernels {

class FeedForwardDriver {
 public:
  FeedForwardDriver(const Lanes16Ops& ops, ThreadPool& pool, LinearDriver& linear)
      : ops_(ops), pool_(pool), linear_(linear) {}

  /// Whether the layer's matrices can be computed in this way.
  static bool fits(const FeedForward& layer);

  void run(const FeedForward& layer, Rows x);

 private:
  struct Parts;

  void columns(const Parts& parts, int row_begin, int row_end, int first, int count) const;
  void run_chunks(const Parts& parts);
  void run_panels(const Parts& parts);
  void finish_rows(const Parts& parts, int begin, int end) const;

  const Lanes16Ops& ops_;
  ThreadPool& pool_;
  LinearDriver& linear_;
  Scratch input_;
  Scratch activated_;
  Scratch normed_;
  Scratch output_;
};

}  // namespace baton::kernels
