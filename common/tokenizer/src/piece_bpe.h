// SentencePiece BPE: the whole text is one word, it begins as code points, and the neighbours whose
// joined spelling has the best score merge first.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "baton/base/result.h"
#include "baton/tokenizer/spec.h"

#include "merger.h"
#include "string_index.h"

namespace baton::tokenizer {

class PieceBpe {
 public:
  /// `spec` stays at its address as long as the encoder lives. Fails with bad_model_file when text
  /// could have no token: no unknown token, and not all 256 byte tokens.
  static Result<PieceBpe> make(const TokenizerSpec& spec);

  /// Appends the ids of `text`, in which spaces are spelled U+2581 and which holds no markers.
  void encode(std::string_view text, Merger& merger, std::vector<TokenId>& ids) const;

 private:
  /// Where the two parts met of which an unused token was made: id to bytes of the left part.
  using Splits = std::unordered_map<TokenId, std::size_t>;

  explicit PieceBpe(const TokenizerSpec& spec);

  void rank_pieces();
  bool is_unused(TokenId id) const { return spec_->types[id] == TokenType::unused; }
  std::optional<MergeRule> rule(std::string_view joined) const;
  /// Appends one piece; an unused one as the parts it was made of.
  void append(std::string_view piece, const Splits& splits, std::size_t begin,
              std::vector<TokenId>& ids) const;
  /// Appends a piece that is no token: its bytes, or one unknown token for a run of such pieces
  /// since `begin`.
  void append_unknown(std::string_view piece, std::size_t begin, std::vector<TokenId>& ids) const;

  const TokenizerSpec* spec_;
  StringIndex pieces_;                ///< normal, user-defined and unused tokens
  std::vector<std::uint32_t> ranks_;  ///< by token: 0 is the best score; equal scores share one
  std::array<TokenId, 256> byte_ids_;
  bool has_all_bytes_ = true;
};

}  // namespace baton::tokenizer
