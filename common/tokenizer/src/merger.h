// The merge loop of every BPE: always the best-ranked pair of neighbours, the leftmost of equals.
// Symbols are a linked list and pairs wait in a heap, so a word of n symbols costs O(n log n): a
// megabyte of one letter is an ordinary word (R18).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "baton/base/check.h"
#include "baton/base/ids.h"

namespace baton::tokenizer {

inline constexpr TokenId no_token = -1;

/// A stretch of the word, and its token if it has one.
struct Symbol {
  std::uint32_t begin = 0;
  std::uint32_t length = 0;  ///< bytes; 0 once it was merged into its left neighbour
  TokenId id = no_token;
};

/// What a pair of neighbours becomes; lower ranks merge first.
struct MergeRule {
  std::uint32_t rank = 0;
  TokenId merged = no_token;
};

/// Holds the buffers, so that many words share them. Not for two threads at once.
class Merger {
 public:
  /// The word: filled by the caller, then merged in place by run(). Symbol 0 stays the first.
  std::vector<Symbol>& symbols() { return symbols_; }

  /// `rule(left, right)` gives std::optional<MergeRule> for two neighbours.
  template <typename Rule>
  void run(const Rule& rule);

 private:
  struct Link {
    std::uint32_t previous;
    std::uint32_t next;
    MergeRule rule;  ///< of the pair (this, next); merged == no_token when there is none
  };
  static constexpr std::uint32_t nothing = ~std::uint32_t{0};

  // Rank and place in one word: its order is the merge order. An entry is out of date when its
  // place no longer has a pair of that rank.
  static std::uint64_t entry(std::uint32_t rank, std::uint32_t place) {
    return (std::uint64_t{rank} << 32) | place;
  }
  void push(std::uint64_t value) {
    heap_.push_back(value);
    std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
  }
  template <typename Rule>
  bool update(std::uint32_t place, const Rule& rule);
  template <typename Rule>
  void start(const Rule& rule);
  void join(std::uint32_t place);

  std::vector<Symbol> symbols_;
  std::vector<Link> links_;
  std::vector<std::uint64_t> heap_;
};

/// Looks the pair at `place` up again; true when it can merge.
template <typename Rule>
bool Merger::update(std::uint32_t place, const Rule& rule) {
  Link& link = links_[place];
  link.rule.merged = no_token;
  if (link.next == nothing) return false;
  const std::optional<MergeRule> found = rule(symbols_[place], symbols_[link.next]);
  if (!found) return false;
  link.rule = *found;
  return true;
}

template <typename Rule>
void Merger::start(const Rule& rule) {
  BATON_CHECK(symbols_.size() < nothing);
  const auto count = static_cast<std::uint32_t>(symbols_.size());
  links_.clear();
  heap_.clear();
  links_.reserve(count);
  heap_.reserve(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    links_.push_back({i == 0 ? nothing : i - 1, i + 1 == count ? nothing : i + 1, {}});
    if (update(i, rule)) heap_.push_back(entry(links_[i].rule.rank, i));
  }
  std::make_heap(heap_.begin(), heap_.end(), std::greater<>());
}

/// The pair at `place` becomes one symbol.
inline void Merger::join(std::uint32_t place) {
  Link& link = links_[place];
  Symbol& right = symbols_[link.next];
  symbols_[place].length += right.length;
  symbols_[place].id = link.rule.merged;
  right.length = 0;
  links_[link.next].rule.merged = no_token;
  link.next = links_[link.next].next;
  if (link.next != nothing) links_[link.next].previous = place;
}

template <typename Rule>
void Merger::run(const Rule& rule) {
  start(rule);
  while (!heap_.empty()) {
    std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
    const std::uint64_t best = heap_.back();
    heap_.pop_back();
    const auto place = static_cast<std::uint32_t>(best);
    const MergeRule& current = links_[place].rule;
    if (current.merged == no_token || current.rank != best >> 32) continue;
    join(place);
    if (update(place, rule)) push(entry(links_[place].rule.rank, place));
    const std::uint32_t before = links_[place].previous;
    if (before != nothing && update(before, rule)) {
      push(entry(links_[before].rule.rank, before));
    }
  }
}

}  // namespace baton::tokenizer
