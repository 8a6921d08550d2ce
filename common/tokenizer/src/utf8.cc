#include "utf8.h"

#include <algorithm>

namespace baton::tokenizer {
namespace {

/// What a lead byte promises: the length of its sequence and the range of the second byte (which is
/// where overlong forms, surrogates and too large values are told apart).
struct Lead {
  std::uint32_t length;
  unsigned char second_min;
  unsigned char second_max;
};

Lead lead_of(unsigned char byte) {
  if (byte < 0xC2) return {0, 0, 0};
  if (byte < 0xE0) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte < 0xF0) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

}  // namespace

Utf8Char decode_utf8(std::string_view text, std::size_t at) {
  const auto first = static_cast<unsigned char>(text[at]);
  if (first < 0x80) return {first, 1, Utf8Status::valid};
  const Lead lead = lead_of(first);
  if (lead.length == 0) return {0, 1, Utf8Status::invalid};
  char32_t value = first & (0x7FU >> lead.length);
  const auto here =
      static_cast<std::uint32_t>(std::min<std::size_t>(lead.length, text.size() - at));
  for (std::uint32_t i = 1; i < here; ++i) {
    const auto byte = static_cast<unsigned char>(text[at + i]);
    const unsigned char low = i == 1 ? lead.second_min : 0x80;
    const unsigned char high = i == 1 ? lead.second_max : 0xBF;
    if (byte < low || byte > high) return {0, i, Utf8Status::invalid};
    value = (value << 6) | (byte & 0x3FU);
  }
  if (here < lead.length) return {0, here, Utf8Status::incomplete};
  return {value, lead.length, Utf8Status::valid};
}

}  // namespace baton::tokenizer
