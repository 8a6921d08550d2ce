// What workers are thought to have in their prefix caches: the beginnings of what this router has
// sent there, as much as a cache holds. An estimate: nodes evict in another order, and other
// routers use them too. A wrong one costs a message, or a wait no longer than the prompt's own
// computation.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <span>
#include <vector>

#include "baton/router/core/workers.h"

namespace baton::router {

/// Names of a prompt's beginnings, one for each `positions` ids. Made fast and for this process
/// alone: workers have keys of their own (prefix::Chain), which nobody can forge.
class PromptKeys {
 public:
  static constexpr int positions = 64;

  /// `ids`: all of the prompt. Appends the keys of what is whole and has none yet.
  void extend(std::span<const TokenId> ids);
  /// Nothing is to be added for so many ids.
  bool cover(std::size_t ids) const { return (keys_.size() + 1) * positions > ids; }
  std::span<const std::uint64_t> keys() const { return keys_; }

 private:
  std::vector<std::uint64_t> keys_;
};

class PrefixMemory {
 public:
  /// The node's cache, of so many tokens (0: not known), holds the blocks of these keys from now
  /// on. At most a million tokens a node are remembered; what was learnt first is forgotten first.
  void add(const WorkerRef& worker, std::span<const std::uint64_t> keys, std::int64_t cache_tokens);
  /// At a lost connection: a node may never come back under its name. One that does is learnt anew.
  void forget(const NodeId& node) { nodes_.erase(node); }
  /// Tokens at the beginning, by node.
  std::map<NodeId, std::int64_t> known(std::span<const std::uint64_t> keys) const;

 private:
  struct Node {
    Epoch epoch;
    std::set<std::uint64_t> keys;
    std::deque<std::uint64_t> order;  ///< the oldest first
  };

  static constexpr std::int64_t most_tokens = 1'000'000;

  std::map<NodeId, Node> nodes_;
};

}  // namespace baton::router
