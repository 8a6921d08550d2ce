// A model without weights whose logits depend on every cached position that a query sees, read from
// the cache itself: a wrong, stale, poisoned or missing block changes the tokens.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "baton/models/model.h"

namespace baton::test {

struct FakeModelOptions {
  int vocabulary = 101;
  std::int64_t context_length = 4096;
  std::vector<int> windows = {0, 24};  ///< one layer group, of two layers, for each
  /// Changes the logits of a row before they are handed out; for planting faults.
  std::function<void(std::int64_t position, float* logits)> spoil;
};

class FakeModel : public models::Model {
 public:
  explicit FakeModel(FakeModelOptions options = {});

  const models::ModelConfig& config() const override { return config_; }
  std::size_t weight_bytes() const override { return 0; }
  bool weights_shared() const override { return false; }
  Result<models::StepOutput> forward(std::span<const models::SequenceRows> batch,
                                     kvcache::Arena& arena,
                                     models::StepObserver* observer) override;

  std::int64_t rows_seen() const { return rows_seen_; }

 private:
  std::byte* entry(kvcache::Arena& arena, const models::SequenceRows& rows, int layer,
                   std::int64_t position) const;
  void run_layer(const models::SequenceRows& rows, int layer, kvcache::Arena& arena,
                 std::vector<std::uint64_t>& states);
  void add_logits(const models::SequenceRows& rows, const std::vector<std::uint64_t>& states);

  FakeModelOptions options_;
  models::ModelConfig config_;
  std::vector<float> logits_;
  std::int64_t rows_seen_ = 0;
};

}  // namespace baton::test
