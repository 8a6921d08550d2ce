// Cuts text into the words inside which byte-level BPE merges. The published pre-tokenizers are
// regular expressions; here each is written out as a scanner that looks at every code point a fixed
// number of times, whatever the text (R18).
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "baton/tokenizer/spec.h"

#include "unicode.h"

namespace baton::tokenizer {

class WordScanner {
 public:
  /// `text` outlives the scanner.
  WordScanner(PreTokenizer kind, std::string_view text) : kind_(kind), text_(text) {}

  /// The next word, never empty; nothing at the end. Joined, the words are the text.
  std::optional<std::string_view> next();

 private:
  struct Char {
    char32_t code_point;
    std::size_t end;  ///< byte after it
    CharClass kind;
  };

  Char char_at(std::size_t at) const;

  // Each answers the end of the word, or part of a word, that begins at byte `at`; what stands at
  // `limit` and after is not seen.
  std::size_t skip(std::size_t at, std::size_t limit, CharClass kind) const;
  std::size_t contraction(std::size_t at, std::size_t limit, bool any_case) const;
  std::size_t gpt2_end(std::size_t at, std::size_t limit) const;
  std::size_t smollm_end(std::size_t at);
  std::size_t llama3_end(std::size_t at, int most_digits) const;
  std::size_t numbers_end(std::size_t at, int most) const;
  std::size_t punctuation_end(std::size_t at) const;
  std::size_t spaces_end(std::size_t at, std::size_t limit, bool newlines_first) const;

  PreTokenizer kind_;
  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t piece_end_ = 0;  ///< smollm: end of the present piece without numbers
};

}  // namespace baton::tokenizer
