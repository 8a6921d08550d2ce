// Spellings to token ids. Keys are views into the vocabulary, which outlives the index and does not
// move.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "baton/base/ids.h"

namespace baton::tokenizer {

class StringIndex {
 public:
  StringIndex() : StringIndex(0) {}
  /// Room for `count` insertions.
  explicit StringIndex(std::size_t count);

  /// The first of equal keys stays. Keys are not empty.
  void insert(std::string_view key, TokenId id);
  std::optional<TokenId> find(std::string_view key) const;
  std::size_t longest_key() const { return longest_; }

 private:
  struct Slot {
    std::string_view key;  ///< empty: free
    TokenId id = 0;
  };

  /// The slot of `key`, or the free one where it would go.
  std::size_t slot_of(std::string_view key) const;

  std::vector<Slot> slots_;
  std::size_t longest_ = 0;
};

}  // namespace baton::tokenizer
