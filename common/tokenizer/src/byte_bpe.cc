#include "byte_bpe.h"

#include <bit>
#include <string>

#include <fmt/format.h>

#include "byte_level.h"
#include "word_scanner.h"

namespace baton::tokenizer {

PairTable::PairTable(std::size_t count) : slots_(std::bit_ceil(2 * count + 2)) {}

std::size_t PairTable::slot_of(Merge pair) const {
  const std::size_t mask = slots_.size() - 1;
  const std::uint64_t key = (std::uint64_t{static_cast<std::uint32_t>(pair.left)} << 32) |
                            static_cast<std::uint32_t>(pair.right);
  // Fibonacci hashing: the high bits of the product depend on all bits of the key.
  std::size_t slot = ((key * 0x9E3779B97F4A7C15ULL) >> 24) & mask;
  while (slots_[slot].rule.merged != no_token && slots_[slot].pair != pair) {
    slot = (slot + 1) & mask;
  }
  return slot;
}

void PairTable::insert(Merge pair, MergeRule rule) {
  Slot& slot = slots_[slot_of(pair)];
  if (slot.rule.merged == no_token) slot = {pair, rule};
}

std::optional<MergeRule> PairTable::find(Merge pair) const {
  const Slot& slot = slots_[slot_of(pair)];
  if (slot.rule.merged == no_token) return std::nullopt;
  return slot.rule;
}

ByteBpe::ByteBpe(const TokenizerSpec& spec, std::span<const std::string> bytes)
    : pre_tokenizer_(spec.pre_tokenizer),
      whole_words_first_(spec.pre_tokenizer == PreTokenizer::llama3),
      words_(spec.tokens.size()),
      pairs_(spec.merges.size()) {
  byte_ids_.fill(no_token);
  for (std::size_t i = 0; i < spec.tokens.size(); ++i) {
    // A spelling with a code point that is no byte is never met in text.
    const bool reachable =
        spec.types[i] == TokenType::normal && bytes_of_spelling(spec.tokens[i]).has_value();
    if (!reachable || bytes[i].empty()) continue;
    words_.insert(bytes[i], static_cast<TokenId>(i));
  }
  for (int byte = 0; byte < 256; ++byte) {
    const char key = static_cast<char>(byte);
    byte_ids_[byte] = words_.find({&key, 1}).value_or(no_token);
  }
}

Result<ByteBpe> ByteBpe::make(const TokenizerSpec& spec, std::span<const std::string> bytes) {
  ByteBpe made(spec, bytes);
  BATON_TRY(made.add_merges(spec, bytes));
  return made;
}

Result<void> ByteBpe::add_merges(const TokenizerSpec& spec, std::span<const std::string> bytes) {
  StringIndex spellings(spec.tokens.size());
  for (std::size_t i = 0; i < spec.tokens.size(); ++i) {
    if (!spec.tokens[i].empty()) spellings.insert(spec.tokens[i], static_cast<TokenId>(i));
  }
  for (std::size_t rank = 0; rank < spec.merges.size(); ++rank) {
    const Merge& merge = spec.merges[rank];
    const std::string joined = spec.tokens[merge.left] + spec.tokens[merge.right];
    if (!spellings.find(joined)) {
      return Error(Reason::bad_model_file,
                   fmt::format("tokenizer.ggml.merges: merge {} spells no token", rank));
    }
    // A merge that would make a control token is left out: text cannot spell it (SEC-14).
    const auto merged = words_.find(bytes[merge.left] + bytes[merge.right]);
    if (!merged) continue;
    pairs_.insert(merge, {static_cast<std::uint32_t>(rank), *merged});
  }
  return ok();
}

void ByteBpe::encode(std::string_view text, Merger& merger, std::vector<TokenId>& ids) const {
  WordScanner words(pre_tokenizer_, text);
  while (const auto word = words.next()) encode_word(*word, merger, ids);
}

void ByteBpe::encode_word(std::string_view word, Merger& merger, std::vector<TokenId>& ids) const {
  if (whole_words_first_ || word.size() == 1) {
    if (const auto id = words_.find(word)) {
      ids.push_back(*id);
      return;
    }
  }
  auto& symbols = merger.symbols();
  symbols.clear();
  symbols.reserve(word.size());
  for (std::size_t i = 0; i < word.size(); ++i) {
    const TokenId id = byte_ids_[static_cast<unsigned char>(word[i])];
    if (id != no_token) symbols.push_back({static_cast<std::uint32_t>(i), 1, id});
  }
  merger.run([this](const Symbol& left, const Symbol& right) {
    return pairs_.find({left.id, right.id});
  });
  for (const Symbol& symbol : symbols) {
    if (symbol.length > 0) ids.push_back(symbol.id);
  }
}

}  // namespace baton::tokenizer
