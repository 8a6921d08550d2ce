// The parser's view of the tokens: one current, one ahead.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lexer.h"

namespace baton::tokenizer::jinja {

class TokenStream {
 public:
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& current() const { return tokens_[position_]; }
  const Token& ahead() const {
    return tokens_[position_ + 1 < tokens_.size() ? position_ + 1 : position_];
  }
  int line() const { return current().line; }
  bool at_end() const { return current().kind == TokenKind::end; }

  bool at(TokenKind kind) const { return current().kind == kind; }
  bool at_symbol(std::string_view symbol) const { return current().is(TokenKind::symbol, symbol); }
  bool at_word(std::string_view word) const { return current().is(TokenKind::name, word); }

  Token take() {
    Token token = current();
    if (!at_end()) ++position_;
    return token;
  }
  bool skip_symbol(std::string_view symbol) { return at_symbol(symbol) && (take(), true); }
  bool skip_word(std::string_view word) { return at_word(word) && (take(), true); }

  Error unexpected(std::string_view wanted) const {
    return syntax_error(line(), "expected " + std::string(wanted) + ", found " + describe());
  }
  Result<void> expect_symbol(std::string_view symbol) {
    if (!skip_symbol(symbol)) return unexpected("'" + std::string(symbol) + "'");
    return ok();
  }
  Result<void> expect(TokenKind kind, std::string_view wanted) {
    if (!at(kind)) return unexpected(wanted);
    take();
    return ok();
  }
  Result<std::string> expect_name() {
    if (!at(TokenKind::name)) return unexpected("a name");
    return take().text;
  }

 private:
  std::string describe() const {
    switch (current().kind) {
      case TokenKind::end:
        return "the end of the template";
      case TokenKind::variable_end:
      case TokenKind::block_end:
        return "the end of the tag";
      case TokenKind::string:
        return "a string";
      case TokenKind::data:
      case TokenKind::variable_begin:
      case TokenKind::block_begin:
        return "template text";
      default:
        return "'" + current().text + "'";
    }
  }

  std::vector<Token> tokens_;
  std::size_t position_ = 0;
};

}  // namespace baton::tokenizer::jinja
