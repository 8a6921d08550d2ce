#include "baton/router/core/prefix_memory.h"

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
    for (std::size_t count = keys.size(); count > 0; --count) {
      if (!node.keys.contains(keys[count - 1])) continue;
      out[name] = static_cast<std::int64_t>(count) * block_positions;
      break;
    }
  }
  return out;
}

}  // namespace baton::router
