// The free blocks of one group, kept as maximal runs so that an allocation comes in few pieces.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace baton::kvcache {

/// Placement: the run that starts at `hint` first (a growing sequence stays in one piece), then the
/// smallest run that holds all of the rest, else the longest runs one after the other. Ties go to
/// the lower block. Deterministic; every operation is logarithmic in the number of runs.
class FreeRuns {
 public:
  explicit FreeRuns(std::int32_t blocks);

  std::int32_t count() const { return count_; }

  /// Appends `wanted` (<= count()) blocks to `out`.
  void take(std::int32_t wanted, std::int32_t hint, std::vector<std::int32_t>& out);

  /// `block` must not be free.
  void give(std::int32_t block);

 private:
  void insert(std::int32_t first, std::int32_t length);
  void erase(std::int32_t first, std::int32_t length);
  void take_front(std::int32_t first, std::int32_t wanted, std::vector<std::int32_t>& out);

  std::map<std::int32_t, std::int32_t> by_start_;              // first block -> length
  std::set<std::pair<std::int32_t, std::int32_t>> by_length_;  // (length, first block)
  std::int32_t count_ = 0;
};

}  // namespace baton::kvcache
