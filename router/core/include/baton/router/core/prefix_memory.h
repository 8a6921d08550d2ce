// What workers are thought to have in their prefix caches: the beginnings of what this router has
// sent there. An estimate that costs a message when it is wrong: nodes evict, and other routers
// use them too.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <span>

#include "baton/prefix/chain.h"
#include "baton/router/core/workers.h"

namespace baton::router {

class PrefixMemory {
 public:
  /// Positions of a key; nodes may keep blocks of another size.
  static constexpr int block_positions = 64;

  /// The default covers a million tokens a node.
  explicit PrefixMemory(std::size_t keys_a_node = 16'384) : capacity_(keys_a_node) {}

  /// The node's cache holds the blocks of these keys from now on.
  void add(const WorkerRef& worker, std::span<const prefix::Key> keys);
  /// At a lost connection: a node may never come back under its name. One that does is learnt anew.
  void forget(const NodeId& node) { nodes_.erase(node); }
  /// Tokens at the beginning, by node.
  std::map<NodeId, std::int64_t> known(std::span<const prefix::Key> keys) const;

 private:
  struct Node {
    Epoch epoch;
    std::set<prefix::Key> keys;
    std::deque<prefix::Key> order;  ///< the oldest first
  };

  std::size_t capacity_;
  std::map<NodeId, Node> nodes_;
};

}  // namespace baton::router
