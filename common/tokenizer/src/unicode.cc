#include "unicode.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <span>

namespace baton::tokenizer {
namespace {

struct CodePointRange {
  char32_t first;
  char32_t last;
};

#include "unicode_tables.inc"

bool contains(std::span<const CodePointRange> ranges, char32_t code_point) {
  const auto after =
      std::upper_bound(ranges.begin(), ranges.end(), code_point,
                       [](char32_t value, const CodePointRange& r) { return value < r.first; });
  return after != ranges.begin() && code_point <= std::prev(after)->last;
}

CharClass class_of_ascii(char32_t c) {
  if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) return CharClass::letter;
  if (c >= '0' && c <= '9') return CharClass::number;
  if (c == ' ' || (c >= '\t' && c <= '\r')) return CharClass::space;
  return CharClass::other;
}

}  // namespace

CharClass class_of(char32_t code_point) {
  if (code_point < 0x80) return class_of_ascii(code_point);
  if (contains(letter_ranges, code_point)) return CharClass::letter;
  if (contains(space_ranges, code_point)) return CharClass::space;
  if (contains(number_ranges, code_point)) return CharClass::number;
  return CharClass::other;
}

}  // namespace baton::tokenizer
