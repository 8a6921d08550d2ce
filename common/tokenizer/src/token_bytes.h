// What a token stands for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "baton/tokenizer/spec.h"

namespace baton::tokenizer {

/// U+2581: how sentencepiece vocabularies spell a space.
inline constexpr std::string_view space_spelling = "\xE2\x96\x81";

/// The byte of "<0xNN>" (two hexadecimal digits); nothing for any other spelling.
std::optional<std::uint8_t> byte_of_spelling(std::string_view spelling);

/// The bytes of every token. `spec` passed check().
std::vector<std::string> token_bytes(const TokenizerSpec& spec);

/// `text` with spaces spelled U+2581.
std::string spell_spaces(std::string_view text);

}  // namespace baton::tokenizer
