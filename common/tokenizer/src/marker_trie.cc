#include "marker_trie.h"

namespace baton::tokenizer {

void MarkerTrie::insert(std::string_view spelling, TokenId id) {
  first_bytes_.set(static_cast<unsigned char>(spelling.front()));
  std::uint32_t node = 0;
  for (const char byte : spelling) {
    const auto [at, is_new] =
        edges_.try_emplace(edge(node, byte), static_cast<std::uint32_t>(ids_.size()));
    if (is_new) ids_.emplace_back();
    node = at->second;
  }
  if (!ids_[node]) ids_[node] = id;
}

std::optional<MarkerTrie::Match> MarkerTrie::longest_at(std::string_view text,
                                                        std::size_t at) const {
  std::optional<Match> best;
  std::uint32_t node = 0;
  for (std::size_t i = at; i < text.size(); ++i) {
    const auto next = edges_.find(edge(node, text[i]));
    if (next == edges_.end()) break;
    node = next->second;
    if (ids_[node]) best = Match{at, i + 1 - at, *ids_[node]};
  }
  return best;
}

std::optional<MarkerTrie::Match> MarkerTrie::find(std::string_view text, std::size_t from) const {
  for (std::size_t at = from; at < text.size(); ++at) {
    if (!first_bytes_.test(static_cast<unsigned char>(text[at]))) continue;
    if (auto match = longest_at(text, at)) return match;
  }
  return std::nullopt;
}

}  // namespace baton::tokenizer
