// Decoding of UTF-8 where ill-formed bytes are an ordinary case: each maximal subpart of an
// ill-formed sequence counts as one (Unicode 3.9, "substitution of maximal subparts"), so that our
// U+FFFD stand where those of every common decoder stand. Overlong forms, surrogates and values
// above U+10FFFF are ill-formed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace baton::tokenizer {

enum class Utf8Status : std::uint8_t {
  valid,
  invalid,     ///< these bytes can begin no code point, whatever follows
  incomplete,  ///< a good beginning that the text ends in
};

struct Utf8Char {
  char32_t code_point = 0;   ///< only when valid
  std::uint32_t length = 1;  ///< bytes taken, at least one
  Utf8Status status = Utf8Status::invalid;
};

inline constexpr std::string_view replacement_character = "\xEF\xBF\xBD";

/// The code point, or ill-formed piece, at byte `at` < text.size().
Utf8Char decode_utf8(std::string_view text, std::size_t at);

}  // namespace baton::tokenizer
