#include "piece_bpe.h"

#include <algorithm>
#include <numeric>

#include "token_bytes.h"
#include "utf8.h"

namespace baton::tokenizer {

PieceBpe::PieceBpe(const TokenizerSpec& spec) : spec_(&spec), pieces_(spec.tokens.size()) {
  byte_ids_.fill(no_token);
  for (std::size_t i = 0; i < spec.tokens.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    switch (spec.types[i]) {
      case TokenType::normal:
      case TokenType::user_defined:
      case TokenType::unused:
        if (!spec.tokens[i].empty()) pieces_.insert(spec.tokens[i], id);
        break;
      case TokenType::byte:
        byte_ids_[*byte_of_spelling(spec.tokens[i])] = id;
        break;
      case TokenType::unknown:
      case TokenType::control:
        break;
    }
  }
  has_all_bytes_ = std::find(byte_ids_.begin(), byte_ids_.end(), no_token) == byte_ids_.end();
  rank_pieces();
}

void PieceBpe::rank_pieces() {
  std::vector<TokenId> order(spec_->tokens.size());
  std::iota(order.begin(), order.end(), 0);
  const auto& scores = spec_->scores;
  std::stable_sort(order.begin(), order.end(),
                   [&](TokenId a, TokenId b) { return scores[a] > scores[b]; });
  ranks_.resize(order.size());
  std::uint32_t rank = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (i > 0 && scores[order[i]] != scores[order[i - 1]]) ++rank;
    ranks_[order[i]] = rank;
  }
}

Result<PieceBpe> PieceBpe::make(const TokenizerSpec& spec) {
  PieceBpe made(spec);
  if (!made.has_all_bytes_ && !spec.unknown) {
    return Error(Reason::bad_model_file,
                 "tokenizer.ggml.tokens: neither 256 byte tokens nor an unknown token");
  }
  return made;
}

std::optional<MergeRule> PieceBpe::rule(std::string_view joined) const {
  const auto id = pieces_.find(joined);
  if (!id) return std::nullopt;
  return MergeRule{ranks_[*id], *id};
}

void PieceBpe::encode(std::string_view text, Merger& merger, std::vector<TokenId>& ids) const {
  auto& symbols = merger.symbols();
  symbols.clear();
  for (std::size_t at = 0; at < text.size();) {
    const std::uint32_t length = decode_utf8(text, at).length;
    symbols.push_back({static_cast<std::uint32_t>(at), length, no_token});
    at += length;
  }
  Splits splits;
  merger.run([&](const Symbol& left, const Symbol& right) {
    const auto found = rule(text.substr(left.begin, left.length + right.length));
    if (found && is_unused(found->merged)) splits[found->merged] = left.length;
    return found;
  });
  const std::size_t begin = ids.size();
  for (const Symbol& symbol : symbols) {
    if (symbol.length > 0) append(text.substr(symbol.begin, symbol.length), splits, begin, ids);
  }
}

void PieceBpe::append(std::string_view piece, const Splits& splits, std::size_t begin,
                      std::vector<TokenId>& ids) const {
  std::vector<std::string_view> waiting = {piece};
  while (!waiting.empty()) {
    const std::string_view part = waiting.back();
    waiting.pop_back();
    const auto id = pieces_.find(part);
    if (!id) {
      append_unknown(part, begin, ids);
      continue;
    }
    const auto split = splits.find(*id);
    if (split == splits.end()) {
      ids.push_back(*id);
      continue;
    }
    waiting.push_back(part.substr(split->second));
    waiting.push_back(part.substr(0, split->second));
  }
}

void PieceBpe::append_unknown(std::string_view piece, std::size_t begin,
                              std::vector<TokenId>& ids) const {
  if (has_all_bytes_) {
    for (const char byte : piece) ids.push_back(byte_ids_[static_cast<unsigned char>(byte)]);
    return;
  }
  const bool continues = ids.size() > begin && ids.back() == *spec_->unknown;
  if (!continues) ids.push_back(*spec_->unknown);
}

}  // namespace baton::tokenizer
