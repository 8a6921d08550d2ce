#include "string_index.h"

#include <algorithm>
#include <bit>
#include <functional>

namespace baton::tokenizer {

StringIndex::StringIndex(std::size_t count) : slots_(std::bit_ceil(2 * count + 2)) {}

std::size_t StringIndex::slot_of(std::string_view key) const {
  const std::size_t mask = slots_.size() - 1;
  std::size_t slot = std::hash<std::string_view>{}(key)&mask;
  while (!slots_[slot].key.empty() && slots_[slot].key != key) slot = (slot + 1) & mask;
  return slot;
}

void StringIndex::insert(std::string_view key, TokenId id) {
  Slot& slot = slots_[slot_of(key)];
  if (!slot.key.empty()) return;
  slot = {key, id};
  longest_ = std::max(longest_, key.size());
}

std::optional<TokenId> StringIndex::find(std::string_view key) const {
  if (key.empty() || key.size() > longest_) return std::nullopt;
  const Slot& slot = slots_[slot_of(key)];
  if (slot.key.empty()) return std::nullopt;
  return slot.id;
}

}  // namespace baton::tokenizer
