#include "parser.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <iterator>
#include <string>
#include <utility>

#include "expression_parser.h"
#include "token_stream.h"

namespace baton::tokenizer::jinja {
namespace {

// Each level of statements is several calls deep, in the parser and in the interpreter.
constexpr std::size_t max_statement_depth = 60;

class StatementParser {
 public:
  explicit StatementParser(std::vector<Token> tokens)
      : tokens_(std::move(tokens)), expressions_(tokens_) {}

  Result<Block> run() {
    BATON_ASSIGN(Block block, body({}));
    return block;
  }

 private:
  using Words = std::initializer_list<std::string_view>;

  // Statements until a tag that begins with one of `ends`, whose word is then the current token.
  Result<Block> body(Words ends);
  // The same, and the end tag (one word) is consumed.
  Result<Block> body_to(std::string_view end);
  Result<Statement> statement();
  Result<Statement> dispatch(const std::string& word, int line);
  Result<Statement> print();
  Result<Statement> condition();
  Result<Statement> loop();
  Result<Statement> loop_control(StatementKind kind);
  Result<Statement> set();
  Result<Statement> set_block(Statement statement);
  Result<Statement> macro();
  Result<Statement> call_block();
  Result<Statement> filter_block();
  Result<Statement> with();
  Result<Statement> generation();
  Result<Target> target(bool with_attribute);
  Result<void> target_name(Target& target, bool with_attribute);
  Result<std::vector<Parameter>> parameters();
  Result<void> end_of_tag() { return tokens_.expect(TokenKind::block_end, "the end of the tag"); }

  TokenStream tokens_;
  ExpressionParser expressions_;
  std::size_t depth_ = 0;
  int loops_ = 0;  // around the current statement, within its macro
};

Statement make(StatementKind kind, int line) {
  Statement statement;
  statement.kind = kind;
  statement.line = line;
  return statement;
}

Result<Block> StatementParser::body(Words ends) {
  if (depth_ >= max_statement_depth) return syntax_error(tokens_.line(), "nested too deeply");
  ++depth_;
  Block block;
  while (true) {
    if (tokens_.at_end()) {
      if (ends.size() == 0) break;
      return syntax_error(tokens_.line(),
                          "the template ends before '" + std::string(*(ends.end() - 1)) + "'");
    }
    const int line = tokens_.line();
    if (tokens_.at(TokenKind::data)) {
      block.push_back(make(StatementKind::data, line));
      block.back().text = tokens_.take().text;
      continue;
    }
    if (tokens_.at(TokenKind::variable_begin)) {
      BATON_ASSIGN(Statement printed, print());
      block.push_back(std::move(printed));
      continue;
    }
    BATON_TRY(tokens_.expect(TokenKind::block_begin, "a tag"));
    const bool ended = std::any_of(ends.begin(), ends.end(),
                                   [&](std::string_view word) { return tokens_.at_word(word); });
    if (ended) break;
    BATON_ASSIGN(Statement next, statement());
    block.push_back(std::move(next));
    BATON_TRY(end_of_tag());
  }
  --depth_;
  return block;
}

Result<Block> StatementParser::body_to(std::string_view end) {
  BATON_TRY(end_of_tag());
  BATON_ASSIGN(Block block, body({end}));
  tokens_.take();
  return block;
}

Result<Statement> StatementParser::print() {
  Statement statement = make(StatementKind::print, tokens_.take().line);
  BATON_ASSIGN(ExpressionPtr value, expressions_.tuple());
  BATON_TRY(tokens_.expect(TokenKind::variable_end, "the end of the tag"));
  statement.expressions.push_back(std::move(value));
  return statement;
}

Result<Statement> StatementParser::statement() {
  const int line = tokens_.line();
  if (!tokens_.at(TokenKind::name)) return tokens_.unexpected("a statement");
  const std::string word = tokens_.take().text;
  BATON_ASSIGN(Statement out, dispatch(word, line));
  out.line = line;
  return out;
}

Result<Statement> StatementParser::dispatch(const std::string& word, int line) {
  struct Rule {
    std::string_view word;
    Result<Statement> (StatementParser::*parse)();
  };
  constexpr std::array rules = {
      Rule{"if", &StatementParser::condition},    Rule{"for", &StatementParser::loop},
      Rule{"set", &StatementParser::set},         Rule{"macro", &StatementParser::macro},
      Rule{"call", &StatementParser::call_block}, Rule{"filter", &StatementParser::filter_block},
      Rule{"with", &StatementParser::with},       Rule{"generation", &StatementParser::generation},
  };
  if (word == "break") return loop_control(StatementKind::break_loop);
  if (word == "continue") return loop_control(StatementKind::continue_loop);
  for (const Rule& rule : rules) {
    if (rule.word == word) return (this->*rule.parse)();
  }
  return syntax_error(line, "the tag '" + word + "' is not supported here");
}

Result<Statement> StatementParser::loop_control(StatementKind kind) {
  if (loops_ == 0) return syntax_error(tokens_.line(), "break and continue need a loop");
  return make(kind, tokens_.line());
}

Result<Statement> StatementParser::condition() {
  Statement statement = make(StatementKind::condition, tokens_.line());
  bool more = true;
  while (more) {
    BATON_ASSIGN(ExpressionPtr test, expressions_.tuple(false));
    BATON_TRY(end_of_tag());
    BATON_ASSIGN(Block block, body({"elif", "else", "endif"}));
    statement.expressions.push_back(std::move(test));
    statement.bodies.push_back(std::move(block));
    more = tokens_.skip_word("elif");
  }
  if (tokens_.skip_word("else")) {
    BATON_ASSIGN(Block block, body_to("endif"));
    statement.expressions.push_back(nullptr);
    statement.bodies.push_back(std::move(block));
  } else {
    tokens_.take();
  }
  return statement;
}

Result<Statement> StatementParser::loop() {
  Statement statement = make(StatementKind::loop, tokens_.line());
  BATON_ASSIGN(statement.target, target(false));
  if (!tokens_.skip_word("in")) return tokens_.unexpected("'in'");
  BATON_ASSIGN(ExpressionPtr iterable, expressions_.tuple(false));
  ExpressionPtr filter;
  if (tokens_.skip_word("if")) {
    BATON_ASSIGN(filter, expressions_.expression());
  }
  if (tokens_.at_word("recursive")) {
    return syntax_error(tokens_.line(), "recursive loops are not supported");
  }
  statement.expressions.push_back(std::move(iterable));
  statement.expressions.push_back(std::move(filter));
  BATON_TRY(end_of_tag());
  ++loops_;
  BATON_ASSIGN(Block repeated, body({"else", "endfor"}));
  --loops_;
  Block otherwise;
  if (tokens_.skip_word("else")) {
    BATON_ASSIGN(otherwise, body_to("endfor"));
  } else {
    tokens_.take();
  }
  statement.bodies.push_back(std::move(repeated));
  statement.bodies.push_back(std::move(otherwise));
  return statement;
}

Result<void> StatementParser::target_name(Target& target, bool with_attribute) {
  BATON_ASSIGN(std::string name, tokens_.expect_name());
  constexpr std::string_view constants[] = {"true", "false", "none", "True", "False", "None"};
  if (std::find(std::begin(constants), std::end(constants), name) != std::end(constants)) {
    return syntax_error(tokens_.line(), "cannot assign to '" + name + "'");
  }
  target.names.push_back(std::move(name));
  if (!with_attribute || !tokens_.skip_symbol(".")) return ok();
  BATON_ASSIGN(target.attribute, tokens_.expect_name());
  return ok();
}

Result<Target> StatementParser::target(bool with_attribute) {
  Target out;
  const bool parenthesised = tokens_.skip_symbol("(");
  BATON_TRY(target_name(out, with_attribute));
  while (tokens_.skip_symbol(",")) {
    out.unpack = true;
    if (!tokens_.at(TokenKind::name) || tokens_.at_word("in")) break;
    BATON_TRY(target_name(out, false));
  }
  if (parenthesised) BATON_TRY(tokens_.expect_symbol(")"));
  if (out.unpack && !out.attribute.empty()) {
    return syntax_error(tokens_.line(), "a namespace attribute cannot be unpacked into");
  }
  return out;
}

Result<Statement> StatementParser::set() {
  Statement statement = make(StatementKind::set, tokens_.line());
  BATON_ASSIGN(statement.target, target(true));
  if (!tokens_.skip_symbol("=")) return set_block(std::move(statement));
  BATON_ASSIGN(ExpressionPtr value, expressions_.tuple());
  statement.expressions.push_back(std::move(value));
  return statement;
}

Result<Statement> StatementParser::set_block(Statement statement) {
  statement.kind = StatementKind::set_block;
  if (statement.target.unpack) return tokens_.unexpected("'='");
  BATON_ASSIGN(ExpressionPtr filters, expressions_.filters_only(false));
  statement.expressions.push_back(std::move(filters));
  BATON_ASSIGN(Block block, body_to("endset"));
  statement.bodies.push_back(std::move(block));
  return statement;
}

Result<std::vector<Parameter>> StatementParser::parameters() {
  std::vector<Parameter> out;
  BATON_TRY(tokens_.expect_symbol("("));
  while (!tokens_.at_symbol(")")) {
    if (!out.empty()) BATON_TRY(tokens_.expect_symbol(","));
    if (tokens_.at_symbol(")")) break;
    Parameter parameter;
    BATON_ASSIGN(parameter.name, tokens_.expect_name());
    if (tokens_.skip_symbol("=")) {
      BATON_ASSIGN(parameter.value, expressions_.expression());
    } else if (!out.empty() && out.back().value != nullptr) {
      return syntax_error(tokens_.line(), "a parameter without default follows one with default");
    }
    out.push_back(std::move(parameter));
  }
  BATON_TRY(tokens_.expect_symbol(")"));
  return out;
}

Result<Statement> StatementParser::macro() {
  Statement statement = make(StatementKind::macro, tokens_.line());
  BATON_ASSIGN(statement.name, tokens_.expect_name());
  BATON_ASSIGN(statement.parameters, parameters());
  const int loops_outside = std::exchange(loops_, 0);
  BATON_ASSIGN(Block block, body_to("endmacro"));
  loops_ = loops_outside;
  statement.bodies.push_back(std::move(block));
  return statement;
}

Result<Statement> StatementParser::call_block() {
  Statement statement = make(StatementKind::call_block, tokens_.line());
  if (tokens_.at_symbol("(")) {
    BATON_ASSIGN(statement.parameters, parameters());
  }
  BATON_ASSIGN(ExpressionPtr call, expressions_.expression());
  if (call->kind != ExpressionKind::call) {
    return syntax_error(statement.line, "a call block needs a call");
  }
  statement.expressions.push_back(std::move(call));
  const int loops_outside = std::exchange(loops_, 0);
  BATON_ASSIGN(Block block, body_to("endcall"));
  loops_ = loops_outside;
  statement.bodies.push_back(std::move(block));
  return statement;
}

Result<Statement> StatementParser::filter_block() {
  Statement statement = make(StatementKind::filter_block, tokens_.line());
  BATON_ASSIGN(ExpressionPtr filters, expressions_.filters_only(true));
  statement.expressions.push_back(std::move(filters));
  BATON_ASSIGN(Block block, body_to("endfilter"));
  statement.bodies.push_back(std::move(block));
  return statement;
}

Result<Statement> StatementParser::with() {
  Statement statement = make(StatementKind::with, tokens_.line());
  while (!tokens_.at(TokenKind::block_end)) {
    if (!statement.parameters.empty()) BATON_TRY(tokens_.expect_symbol(","));
    Parameter variable;
    BATON_ASSIGN(variable.name, tokens_.expect_name());
    BATON_TRY(tokens_.expect_symbol("="));
    BATON_ASSIGN(variable.value, expressions_.expression());
    statement.parameters.push_back(std::move(variable));
  }
  BATON_ASSIGN(Block block, body_to("endwith"));
  statement.bodies.push_back(std::move(block));
  return statement;
}

Result<Statement> StatementParser::generation() {
  Statement statement = make(StatementKind::scope, tokens_.line());
  BATON_ASSIGN(Block block, body_to("endgeneration"));
  statement.bodies.push_back(std::move(block));
  return statement;
}

}  // namespace

Result<Block> parse_template(std::string_view source) {
  BATON_ASSIGN(std::vector<Token> tokens, tokenize(source));
  return StatementParser(std::move(tokens)).run();
}

}  // namespace baton::tokenizer::jinja
