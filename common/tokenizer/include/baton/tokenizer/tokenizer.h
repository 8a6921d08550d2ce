// Text to token ids and back, the way the model was trained. Linear in the text, nothing
// backtracks (R18).
#pragma once

#include <cstddef>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "baton/base/ids.h"
#include "baton/base/result.h"
#include "baton/tokenizer/spec.h"

namespace baton::tokenizer {

/// A piece of one text. Pieces are joined before tokenising: a cut between two of them is no
/// boundary for words. Only where `parse_special` is set (text that a template wrote) do the
/// spellings of control tokens become control tokens; elsewhere they are data (R17, SEC-14). A
/// spelling that crosses into a piece without the flag is data too.
struct Segment {
  std::string_view text;
  bool parse_special = false;
};

struct EncodeOptions {
  /// Add bos and eos where the model's flags ask for them. A bos or eos that is there already is
  /// not doubled (LDR-13).
  bool add_special = true;
  /// Longer texts are refused before any work (SEC-13). A text without any boundary between words
  /// takes about 40 bytes of memory for each of its own while it is encoded.
  std::size_t max_bytes = std::numeric_limits<std::size_t>::max();
};

struct DecodeOptions {
  /// Control and unknown tokens give no text; otherwise their spelling.
  bool skip_special = true;
  /// Sentencepiece with add_space_prefix: drop the space that encoding put before the first word.
  /// For ids that are a whole text, not for a continuation.
  bool strip_space_prefix = false;
};

/// Immutable; copies share one state and may be used from any thread.
class Tokenizer {
 public:
  /// Fails with bad_model_file: check(), a merge that spells no token, bytes without tokens.
  static Result<Tokenizer> make(TokenizerSpec spec);

  const TokenizerSpec& spec() const;
  std::size_t vocabulary_size() const;

  /// Ids of the joined segments. The text should be UTF-8; ill-formed bytes are kept as bytes where
  /// the vocabulary has them. What has no token gives the unknown token (sentencepiece) or is
  /// dropped (bytes that a byte-level vocabulary lacks), as the reference does. Fails with
  /// context_length_exceeded when the text is longer than max_bytes.
  Result<std::vector<TokenId>> encode(std::span<const Segment> segments,
                                      const EncodeOptions& options = {}) const;

  /// The same for one text without control tokens.
  Result<std::vector<TokenId>> encode(std::string_view text,
                                      const EncodeOptions& options = {}) const;

  /// Well-formed UTF-8 of all ids (see Detokenizer).
  std::string decode(std::span<const TokenId> ids, const DecodeOptions& options = {}) const;

  /// The bytes that a token stands for, also when they are part of a code point; the spelling of a
  /// control token; empty for an id outside the vocabulary. Valid as long as any copy lives.
  std::string_view bytes(TokenId id) const;

  /// The token of exactly this spelling, of any type.
  std::optional<TokenId> find(std::string_view spelling) const;

  /// Control or unknown: no text of its own.
  bool is_special(TokenId id) const;

  /// A generation ends with any of these (LDR-15). Ascending.
  std::span<const TokenId> end_of_generation() const;
  bool is_end_of_generation(TokenId id) const;

  /// Most bytes of text that one token stands for.
  std::size_t longest_token_bytes() const;

 private:
  struct State;
  explicit Tokenizer(std::shared_ptr<const State> state) : state_(std::move(state)) {}

  std::shared_ptr<const State> state_;
};

}  // namespace baton::tokenizer
