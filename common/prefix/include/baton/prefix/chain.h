// The keyed prefix chain: names for "the cache of exactly these ids from position 0 on", the same
// on every worker whatever its block size, and of no use to anybody who does not know the root.
//
// A router makes the root; workers extend it over token ids and never see secret or salt. Two
// sequences share a key only when root (so secret, fingerprint and salt) and all ids are the same.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "baton/base/ids.h"
#include "baton/base/strong.h"

namespace baton::prefix {

using Key = Strong<Digest256, struct KeyTag>;

/// Positions of one link of the chain; a block is a multiple of it.
inline constexpr int link_positions = 16;

/// HMAC-SHA-256 under the cluster's secret over fingerprint and salt (whatever separates tenants).
Key root(std::string_view secret, const Digest256& fingerprint, std::string_view salt);

/// The keys of one sequence's whole blocks, in order.
class Chain {
 public:
  /// `block_positions`: a multiple of link_positions.
  Chain(const Key& root, int block_positions);

  /// `ids`: all of the sequence from position 0. Appends the keys of the blocks that are whole and
  /// have none yet.
  void extend(std::span<const TokenId> ids);

  /// keys()[i] names the ids [0, (i + 1) * block_positions).
  std::span<const Key> keys() const { return keys_; }
  int block_positions() const { return block_positions_; }

 private:
  Key last_;
  int block_positions_;
  std::vector<Key> keys_;
};

}  // namespace baton::prefix
