// The spelling of bytes in GPT-2 style vocabularies: each byte is one printable code point, so that
// a vocabulary is readable text. "Ġthe" is " the".
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace baton::tokenizer {

/// The bytes that a token's spelling stands for; nothing when it has a code point that is no byte.
std::optional<std::string> bytes_of_spelling(std::string_view spelling);

}  // namespace baton::tokenizer
