// From token ids to text while they arrive. Tokens carry bytes, not characters: a code point may be
// spread over several tokens, and a model may emit bytes that are no text at all.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "baton/base/ids.h"
#include "baton/tokenizer/tokenizer.h"

namespace baton::tokenizer {

/// Makes well-formed UTF-8 of any bytes, piece by piece: each maximal ill-formed subpart becomes
/// U+FFFD; overlong forms, surrogates and values above U+10FFFF are ill-formed. Only an unfinished
/// code point (at most 3 bytes) is held back.
class Utf8Stream {
 public:
  /// The text that is final now.
  std::string push(std::string_view bytes);

  /// The end: what was held back can no longer be completed.
  std::string flush();

  std::size_t held_bytes() const { return held_.size(); }

 private:
  std::string held_;
};

/// One output sequence. Answers are append-only: joined they equal Tokenizer::decode() of all ids,
/// whatever the cut, and each is well-formed UTF-8 by itself (API-23 to API-26). A value type: a
/// copy continues from the same place.
class Detokenizer {
 public:
  explicit Detokenizer(Tokenizer tokenizer, DecodeOptions options = {});

  /// The text that became final with this token; may be empty. An id outside the vocabulary has no
  /// text.
  std::string push(TokenId id);

  /// The end of the sequence. Afterwards the detokenizer is as new, but for its count.
  std::string flush();

  /// Bytes of text answered so far; never decreases.
  std::uint64_t text_bytes() const { return text_bytes_; }

  /// True when every token pushed so far is in the answered text in full.
  bool at_boundary() const { return stream_.held_bytes() == 0; }

 private:
  Tokenizer tokenizer_;
  DecodeOptions options_;
  Utf8Stream stream_;
  std::uint64_t text_bytes_ = 0;
  bool first_ = true;
};

}  // namespace baton::tokenizer
