#include "token_bytes.h"

#include <charconv>

#include "byte_level.h"

namespace baton::tokenizer {
namespace {

std::string plain_spaces(std::string_view spelling) {
  std::string text;
  for (std::size_t at = 0; at < spelling.size();) {
    const std::size_t found = spelling.find(space_spelling, at);
    text += spelling.substr(at, found - at);
    if (found == std::string_view::npos) break;
    text += ' ';
    at = found + space_spelling.size();
  }
  return text;
}

std::string bytes_of(Algorithm algorithm, const std::string& spelling, TokenType type) {
  switch (type) {
    case TokenType::byte:
      return {static_cast<char>(*byte_of_spelling(spelling))};
    case TokenType::control:
    case TokenType::unknown:
      return spelling;
    case TokenType::user_defined:
      return algorithm == Algorithm::sentencepiece ? plain_spaces(spelling) : spelling;
    case TokenType::normal:
    case TokenType::unused:
      if (algorithm == Algorithm::sentencepiece) return plain_spaces(spelling);
      return bytes_of_spelling(spelling).value_or(spelling);
  }
  return spelling;
}

}  // namespace

std::optional<std::uint8_t> byte_of_spelling(std::string_view spelling) {
  if (spelling.size() != 6 || !spelling.starts_with("<0x") || spelling.back() != '>') {
    return std::nullopt;
  }
  std::uint8_t byte = 0;
  const char* const end = spelling.data() + 5;
  const auto [stop, error] = std::from_chars(spelling.data() + 3, end, byte, 16);
  if (error != std::errc() || stop != end) return std::nullopt;
  return byte;
}

std::vector<std::string> token_bytes(const TokenizerSpec& spec) {
  std::vector<std::string> bytes;
  bytes.reserve(spec.tokens.size());
  for (std::size_t i = 0; i < spec.tokens.size(); ++i) {
    bytes.push_back(bytes_of(spec.algorithm, spec.tokens[i], spec.types[i]));
  }
  return bytes;
}

std::string spell_spaces(std::string_view text) {
  std::string spelled;
  spelled.reserve(text.size() + text.size() / 4);
  for (const char c : text) {
    if (c == ' ') {
      spelled += space_spelling;
    } else {
      spelled += c;
    }
  }
  return spelled;
}

}  // namespace baton::tokenizer
