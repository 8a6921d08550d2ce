// Byte-level BPE: text is cut into words, each word begins as single bytes, and listed pairs merge
// in the order of the list.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "baton/base/result.h"
#include "baton/tokenizer/spec.h"

#include "merger.h"
#include "string_index.h"

namespace baton::tokenizer {

/// Pairs of tokens to what they become.
class PairTable {
 public:
  explicit PairTable(std::size_t count);
  /// The first of equal pairs stays.
  void insert(Merge pair, MergeRule rule);
  std::optional<MergeRule> find(Merge pair) const;

 private:
  struct Slot {
    Merge pair;
    MergeRule rule;  ///< merged == no_token: free
  };
  std::size_t slot_of(Merge pair) const;
  std::vector<Slot> slots_;
};

class ByteBpe {
 public:
  /// `bytes` has each token's bytes and outlives the encoder, at the same address. Only normal
  /// tokens are ever produced. Fails with bad_model_file when a merge spells no token.
  static Result<ByteBpe> make(const TokenizerSpec& spec, std::span<const std::string> bytes);

  /// Appends the ids of `text`, which holds no markers. Bytes without a token are dropped, as the
  /// reference does.
  void encode(std::string_view text, Merger& merger, std::vector<TokenId>& ids) const;

 private:
  ByteBpe(const TokenizerSpec& spec, std::span<const std::string> bytes);
  Result<void> add_merges(const TokenizerSpec& spec, std::span<const std::string> bytes);
  void encode_word(std::string_view word, Merger& merger, std::vector<TokenId>& ids) const;

  PreTokenizer pre_tokenizer_;
  bool whole_words_first_;  ///< a word that is a token is that token, reachable by merges or not
  std::array<TokenId, 256> byte_ids_;
  StringIndex words_;
  PairTable pairs_;
};

}  // namespace baton::tokenizer
