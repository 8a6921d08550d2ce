#include "baton/router/core/prefix_memory.h"

#include <algorithm>

#include <xxhash.h>

namespace baton::router {

namespace {

/// A key is there with those before it, but for a beginning that was forgotten for its age: then
/// less is found than there is.
std::size_t count_known(const std::set<std::uint64_t>& known, std::span<const std::uint64_t> keys) {
  const auto end = std::partition_point(keys.begin(), keys.end(),
                                        [&](std::uint64_t key) { return known.contains(key); });
  return static_cast<std::size_t>(end - keys.begin());
}

}  // namespace

void PromptKeys::extend(std::span<const TokenId> ids) {
  while ((keys_.size() + 1) * positions <= ids.size()) {
    const auto block = ids.subspan(keys_.size() * positions, positions);
    const std::uint64_t before = keys_.empty() ? 0 : keys_.back();
    keys_.push_back(XXH3_64bits_withSeed(block.data(), block.size_bytes(), before));
  }
}

void PrefixMemory::add(const WorkerRef& worker, std::span<const std::uint64_t> keys,
                       std::int64_t cache_tokens) {
  Node& node = nodes_[worker.node];
  if (node.epoch != worker.epoch) node = Node{worker.epoch, {}, {}};
  for (const std::uint64_t key : keys.subspan(count_known(node.keys, keys))) {
    if (node.keys.insert(key).second) node.order.push_back(key);
  }
  const std::int64_t tokens = cache_tokens > 0 ? std::min(cache_tokens, most_tokens) : most_tokens;
  const auto most = static_cast<std::size_t>(tokens / PromptKeys::positions);
  for (; node.order.size() > most; node.order.pop_front()) node.keys.erase(node.order.front());
}

std::map<NodeId, std::int64_t> PrefixMemory::known(std::span<const std::uint64_t> keys) const {
  std::map<NodeId, std::int64_t> out;
  for (const auto& [name, node] : nodes_) {
    const std::size_t count = count_known(node.keys, keys);
    if (count > 0) out[name] = static_cast<std::int64_t>(count) * PromptKeys::positions;
  }
  return out;
}

}  // namespace baton::router
