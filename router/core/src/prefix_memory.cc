#include "baton/router/core/prefix_memory.h"

#include <algorithm>

namespace baton::router {

void PrefixMemory::add(const WorkerRef& worker, std::span<const prefix::Key> keys) {
  Node& node = nodes_[worker.node];
  if (node.epoch != worker.epoch) node = Node{worker.epoch, {}, {}};
  for (const prefix::Key& key : keys) {
    if (node.keys.insert(key).second) node.order.push_back(key);
  }
  for (; node.order.size() > capacity_; node.order.pop_front()) node.keys.erase(node.order.front());
}

std::map<NodeId, std::int64_t> PrefixMemory::known(std::span<const prefix::Key> keys) const {
  std::map<NodeId, std::int64_t> out;
  for (const auto& [name, node] : nodes_) {
    // A key is there with those before it, but for a beginning that was forgotten for its age:
    // then less is found than there is.
    const auto end = std::partition_point(
        keys.begin(), keys.end(), [&](const prefix::Key& key) { return node.keys.contains(key); });
    if (end != keys.begin()) out[name] = (end - keys.begin()) * block_positions;
  }
  return out;
}

}  // namespace baton::router
