// Finds the spellings of control and user-defined tokens in text: the longest at a place, the
// leftmost first.
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "baton/base/ids.h"

namespace baton::tokenizer {

class MarkerTrie {
 public:
  struct Match {
    std::size_t begin = 0;
    std::size_t length = 0;
    TokenId id = 0;
  };

  MarkerTrie() : ids_(1) {}

  /// The first of equal spellings stays. `spelling` is not empty.
  void insert(std::string_view spelling, TokenId id);

  /// The first match that begins at or after `from`. Costs at most the longest spelling per byte.
  std::optional<Match> find(std::string_view text, std::size_t from) const;

 private:
  std::optional<Match> longest_at(std::string_view text, std::size_t at) const;

  static std::uint64_t edge(std::uint32_t node, char byte) {
    return (std::uint64_t{node} << 8) | static_cast<unsigned char>(byte);
  }

  std::unordered_map<std::uint64_t, std::uint32_t>
      edges_;                                ///< (node, byte) to node; never iterated
  std::vector<std::optional<TokenId>> ids_;  ///< by node; node 0 is the root
  std::bitset<256> first_bytes_;
};

}  // namespace baton::tokenizer
