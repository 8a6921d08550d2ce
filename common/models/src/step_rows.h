// The rows of a step: which sequence each belongs to, where its cache lies, who has left.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "baton/base/result.h"
#include "baton/kernels/kernels.h"
#include "baton/kvcache/arena.h"
#include "baton/models/config.h"
#include "baton/models/model.h"

namespace baton::models {

/// Every token, position and block of the batch is usable (invalid_request otherwise).
Result<void> check_batch(const ModelConfig& config, std::int64_t context_length,
                         std::span<const SequenceRows> batch, const kvcache::Arena& arena);

/// The rows still in the step, those of one sequence together and in batch order. Kept between
/// steps so that its memory is reused.
class StepRows {
 public:
  struct Live {
    std::size_t sequence;  ///< index into the batch
    int row;
    int count;
  };

  void begin(std::span<const SequenceRows> batch);

  int rows() const { return static_cast<int>(positions_.size()); }
  std::span<const TokenId> tokens() const { return tokens_; }
  std::span<const std::int64_t> positions() const { return positions_; }
  std::span<const Live> live() const { return live_; }

  /// The rows' places in one layer's cache. Valid until the next call.
  std::span<const kernels::RowSpan> spans(const ModelConfig& config, int layer,
                                          std::span<const SequenceRows> batch,
                                          kvcache::Arena& arena);

  /// Takes the rows of cancelled sequences out and moves the later ones up, in `hidden` too. True
  /// when rows left.
  bool drop_cancelled(StepObserver& observer, kernels::Rows hidden);

  /// Leaves only the rows whose logits are wanted: nothing reads the others' queries behind the
  /// last layer's keys and values. Moves the rows of `hidden` and `q` up.
  void keep_wanted(std::span<const SequenceRows> batch, kernels::Rows hidden, kernels::Rows q);

 private:
  void move_positions(int from, int to, int count);
  void keep(std::size_t sequences, int rows);

  std::vector<TokenId> tokens_;
  std::vector<std::int64_t> positions_;
  std::vector<Live> live_;
  std::vector<std::byte*> blocks_;
  std::vector<kernels::RowSpan> spans_;
};

}  // namespace baton::models
