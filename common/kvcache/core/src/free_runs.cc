#include "free_runs.h"

#include <algorithm>
#include <iterator>

#include "baton/base/check.h"

namespace baton::kvcache {

FreeRuns::FreeRuns(std::int32_t blocks) : count_(blocks) {
  if (blocks > 0) insert(0, blocks);
}

void FreeRuns::insert(std::int32_t first, std::int32_t length) {
  by_start_.emplace(first, length);
  by_length_.emplace(length, first);
}

void FreeRuns::erase(std::int32_t first, std::int32_t length) {
  by_start_.erase(first);
  by_length_.erase({length, first});
}

void FreeRuns::take_front(std::int32_t first, std::int32_t wanted, std::vector<std::int32_t>& out) {
  const std::int32_t length = by_start_.at(first);
  erase(first, length);
  for (std::int32_t i = 0; i < wanted; ++i) out.push_back(first + i);
  if (length > wanted) insert(first + wanted, length - wanted);
  count_ -= wanted;
}

void FreeRuns::take(std::int32_t wanted, std::int32_t hint, std::vector<std::int32_t>& out) {
  BATON_CHECK(wanted >= 0 && wanted <= count_);
  const auto next = by_start_.find(hint);
  if (wanted > 0 && next != by_start_.end()) {
    const std::int32_t here = std::min(wanted, next->second);
    take_front(hint, here, out);
    wanted -= here;
  }
  while (wanted > 0) {
    const auto fits = by_length_.lower_bound({wanted, -1});
    if (fits != by_length_.end()) {
      take_front(fits->second, wanted, out);
      return;
    }
    // Among the longest the one that starts lowest.
    const auto longest = by_length_.lower_bound({by_length_.rbegin()->first, -1});
    const auto [length, first] = *longest;
    take_front(first, length, out);
    wanted -= length;
  }
}

void FreeRuns::give(std::int32_t block) {
  std::int32_t first = block;
  std::int32_t length = 1;
  const auto after = by_start_.upper_bound(block);
  if (after != by_start_.begin()) {
    const auto [before_first, before_length] = *std::prev(after);
    BATON_CHECK(before_first + before_length <= block);
    if (before_first + before_length == block) {
      first = before_first;
      length += before_length;
    }
  }
  if (after != by_start_.end() && after->first == block + 1) {
    const auto [after_first, after_length] = *after;
    length += after_length;
    erase(after_first, after_length);
  }
  if (first != block) erase(first, by_start_.at(first));
  insert(first, length);
  ++count_;
}

}  // namespace baton::kvcache
