#include "prefix_index.h"

#include "baton/base/check.h"

namespace baton::kvcache {

std::optional<std::int32_t> PrefixIndex::find(const prefix::Key& key) const {
  const auto found = by_key_.find(key);
  return found == by_key_.end() ? std::nullopt : std::optional(found->second);
}

bool PrefixIndex::add(const prefix::Key& key, std::int32_t block) {
  BATON_CHECK(!contains(block));
  const auto [at, added] = by_key_.emplace(key, block);
  if (added) {
    entry(block).key = key;
  } else if (is_idle(at->second)) {
    idle(at->second);
  }
  return added;
}

void PrefixIndex::remove(std::int32_t block) {
  BATON_CHECK(contains(block));
  busy(block);
  by_key_.erase(*entry(block).key);
  entry(block).key.reset();
}

void PrefixIndex::idle(std::int32_t block) {
  BATON_CHECK(contains(block));
  busy(block);
  entry(block).idle_since = ++uses_;
  by_use_.emplace(uses_, block);
}

void PrefixIndex::busy(std::int32_t block) {
  if (!is_idle(block)) return;
  by_use_.erase(entry(block).idle_since);
  entry(block).idle_since = 0;
}

std::int32_t PrefixIndex::evict() {
  BATON_CHECK(!by_use_.empty());
  const std::int32_t block = by_use_.begin()->second;
  remove(block);
  return block;
}

}  // namespace baton::kvcache
