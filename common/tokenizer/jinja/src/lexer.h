// Template text → tokens, with Jinja2's whitespace control under trim_blocks and lstrip_blocks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "baton/base/result.h"

namespace baton::tokenizer::jinja {

enum class TokenKind : std::uint8_t {
  data,
  variable_begin,
  variable_end,
  block_begin,
  block_end,
  name,
  string,
  integer,
  floating,
  symbol,
  end,
};

struct Token {
  TokenKind kind = TokenKind::end;
  int line = 0;
  std::string text;  ///< data, name, the string's value, the number's digits, or the symbol

  bool is(TokenKind wanted, std::string_view wanted_text) const {
    return kind == wanted && text == wanted_text;
  }
};

/// The error of everything that is wrong with a template's text: bad_model_file with the line.
Error syntax_error(int line, std::string_view problem);

/// The last token is `end`.
Result<std::vector<Token>> tokenize(std::string_view source);

}  // namespace baton::tokenizer::jinja
