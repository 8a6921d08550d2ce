// Code points in UTF-8 as Python's str methods see them. A byte that starts no valid sequence
// counts as one character.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace baton::tokenizer::jinja {

/// A decoded character; `code` is 0xFFFFFFFF for an invalid byte.
struct Character {
  char32_t code = 0;
  std::size_t size_bytes = 0;
};

/// The character at `position` < bytes.size().
Character character_at(std::string_view bytes, std::size_t position);
/// Where the character that ends at `end` > 0 begins.
std::size_t previous_start(std::string_view bytes, std::size_t end);
std::size_t count_characters(std::string_view bytes);
/// Byte offset of the character with this index; the size when there are fewer.
std::size_t offset_of_character(std::string_view bytes, std::size_t index);
void append_utf8(std::string& out, char32_t code);

/// str.isspace() of one character.
bool is_space(char32_t code);
/// Where str.splitlines() breaks.
bool is_line_break(char32_t code);
bool is_digit(char32_t code);   ///< ASCII
bool is_letter(char32_t code);  ///< ASCII letters, and every character beyond ASCII that has a case

/// Simple case mapping of one character: ASCII, Latin, Greek, Cyrillic and Armenian. Others stay.
char32_t to_upper(char32_t code);
char32_t to_lower(char32_t code);

/// First position ≥ `from` of a non-empty `needle`, npos when there is none. Linear in the worst
/// case (R18).
std::size_t find_bytes(std::string_view bytes, std::string_view needle, std::size_t from);

}  // namespace baton::tokenizer::jinja
