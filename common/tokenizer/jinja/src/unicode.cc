#include "unicode.h"

#include <array>

#include <string.h>

namespace baton::tokenizer::jinja {
namespace {

constexpr char32_t invalid = 0xFFFFFFFF;

struct Range {
  char32_t first;
  char32_t last;
  char32_t offset;  // upper → lower; 1 with `alternating`: even is upper, odd is lower (or reverse)
  bool alternating;
};

// Ranges of capital letters whose small letter is at a fixed distance, from UnicodeData.txt.
constexpr std::array case_ranges = {
    Range{'A', 'Z', 32, false},     Range{0xC0, 0xD6, 32, false},   Range{0xD8, 0xDE, 32, false},
    Range{0x100, 0x12F, 1, true},   Range{0x132, 0x137, 1, true},   Range{0x139, 0x148, 1, true},
    Range{0x14A, 0x177, 1, true},   Range{0x179, 0x17E, 1, true},   Range{0x386, 0x386, 38, false},
    Range{0x388, 0x38A, 37, false}, Range{0x38C, 0x38C, 64, false}, Range{0x38E, 0x38F, 63, false},
    Range{0x391, 0x3A1, 32, false}, Range{0x3A3, 0x3AB, 32, false}, Range{0x400, 0x40F, 80, false},
    Range{0x410, 0x42F, 32, false}, Range{0x460, 0x481, 1, true},   Range{0x48A, 0x4BF, 1, true},
    Range{0x4D0, 0x52F, 1, true},   Range{0x531, 0x556, 48, false}, Range{0x1E00, 0x1E95, 1, true},
    Range{0x1EA0, 0x1EFF, 1, true},
};

bool continuation(std::string_view bytes, std::size_t at) {
  return at < bytes.size() && (static_cast<unsigned char>(bytes[at]) & 0xC0) == 0x80;
}

char32_t low_bits(std::string_view bytes, std::size_t at) {
  return static_cast<unsigned char>(bytes[at]) & 0x3F;
}

// The first letter of an alternating range is a capital one.
bool is_capital(const Range& range, char32_t code) { return (code - range.first) % 2 == 0; }

}  // namespace

Character character_at(std::string_view bytes, std::size_t position) {
  const char32_t lead = static_cast<unsigned char>(bytes[position]);
  if (lead < 0x80) return {lead, 1};
  const std::size_t size = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4) return {invalid, 1};
  char32_t code = lead & (0xFF >> (size + 1));
  for (std::size_t i = 1; i < size; ++i) {
    if (!continuation(bytes, position + i)) return {invalid, 1};
    code = code << 6 | low_bits(bytes, position + i);
  }
  const bool overlong = (size == 3 && code < 0x800) || (size == 4 && code < 0x10000);
  if (overlong || code > 0x10FFFF) return {invalid, 1};
  return {code, size};
}

std::size_t previous_start(std::string_view bytes, std::size_t end) {
  std::size_t start = end - 1;
  while (start > 0 && end - start < 4 && continuation(bytes, start)) --start;
  return character_at(bytes, start).size_bytes == end - start ? start : end - 1;
}

std::size_t count_characters(std::string_view bytes) {
  std::size_t count = 0;
  for (std::size_t at = 0; at < bytes.size(); at += character_at(bytes, at).size_bytes) ++count;
  return count;
}

std::size_t offset_of_character(std::string_view bytes, std::size_t index) {
  std::size_t at = 0;
  for (; index > 0 && at < bytes.size(); --index) at += character_at(bytes, at).size_bytes;
  return at;
}

void append_utf8(std::string& out, char32_t code) {
  const auto push = [&](char32_t byte) { out += static_cast<char>(byte); };
  if (code < 0x80) {
    push(code);
  } else if (code < 0x800) {
    push(0xC0 | code >> 6);
    push(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    push(0xE0 | code >> 12);
    push(0x80 | (code >> 6 & 0x3F));
    push(0x80 | (code & 0x3F));
  } else {
    push(0xF0 | code >> 18);
    push(0x80 | (code >> 12 & 0x3F));
    push(0x80 | (code >> 6 & 0x3F));
    push(0x80 | (code & 0x3F));
  }
}

bool is_space(char32_t code) {
  return (code >= 0x09 && code <= 0x0D) || (code >= 0x1C && code <= 0x20) || code == 0x85 ||
         code == 0xA0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 ||
         code == 0x2029 || code == 0x202F || code == 0x205F || code == 0x3000;
}

bool is_line_break(char32_t code) {
  return (code >= 0x0A && code <= 0x0D) || (code >= 0x1C && code <= 0x1E) || code == 0x85 ||
         code == 0x2028 || code == 0x2029;
}

bool is_digit(char32_t code) { return code >= '0' && code <= '9'; }

bool is_letter(char32_t code) {
  return to_upper(code) != code || to_lower(code) != code || code == 0xDF;
}

char32_t to_upper(char32_t code) {
  if (code == 0xB5) return 0x39C;
  if (code == 0xFF) return 0x178;
  if (code == 0x3C2) return 0x3A3;
  for (const Range& range : case_ranges) {
    if (range.alternating) {
      if (code >= range.first && code <= range.last) {
        return is_capital(range, code) ? code : code - 1;
      }
    } else if (code >= range.first + range.offset && code <= range.last + range.offset) {
      return code - range.offset;
    }
  }
  return code;
}

char32_t to_lower(char32_t code) {
  if (code == 0x178) return 0xFF;
  for (const Range& range : case_ranges) {
    if (code < range.first || code > range.last) continue;
    if (!range.alternating) return code + range.offset;
    return is_capital(range, code) ? code + 1 : code;
  }
  return code;
}

std::size_t find_bytes(std::string_view bytes, std::string_view needle, std::size_t from) {
  if (from > bytes.size()) return std::string_view::npos;
  // memmem's two-way search is linear; std::string_view::find is not.
  const void* found =
      ::memmem(bytes.data() + from, bytes.size() - from, needle.data(), needle.size());
  if (found == nullptr) return std::string_view::npos;
  return static_cast<std::size_t>(static_cast<const char*>(found) - bytes.data());
}

}  // namespace baton::tokenizer::jinja
