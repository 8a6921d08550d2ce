#include "byte_level.h"

#include <array>

#include "utf8.h"

namespace baton::tokenizer {
namespace {

// Bytes that are printable in Latin-1 stand for themselves; the others, in ascending order, are
// U+0100 and up.
constexpr bool stands_for_itself(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

constexpr int moved_bytes = 0x21 + (0xA1 - 0x7F) + 1;

constexpr std::array<char, moved_bytes> make_moved() {
  std::array<char, moved_bytes> moved{};
  std::size_t next = 0;
  for (int byte = 0; byte < 256; ++byte) {
    if (!stands_for_itself(byte)) moved[next++] = static_cast<char>(byte);
  }
  return moved;
}

constexpr std::array<char, moved_bytes> moved = make_moved();

std::optional<char> byte_of(char32_t code_point) {
  if (code_point < 0x100) {
    if (!stands_for_itself(static_cast<int>(code_point))) return std::nullopt;
    return static_cast<char>(code_point);
  }
  if (code_point - 0x100 >= moved.size()) return std::nullopt;
  return moved[code_point - 0x100];
}

}  // namespace

std::optional<std::string> bytes_of_spelling(std::string_view spelling) {
  std::string bytes;
  for (std::size_t at = 0; at < spelling.size();) {
    const Utf8Char c = decode_utf8(spelling, at);
    if (c.status != Utf8Status::valid) return std::nullopt;
    const std::optional<char> byte = byte_of(c.code_point);
    if (!byte) return std::nullopt;
    bytes.push_back(*byte);
    at += c.length;
  }
  return bytes;
}

}  // namespace baton::tokenizer
