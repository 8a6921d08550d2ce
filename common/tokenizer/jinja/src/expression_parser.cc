#include "expression_parser.h"

#include <algorithm>
#include <charconv>
#include <string>

namespace baton::tokenizer::jinja {
namespace {

Error too_deep(int line) { return syntax_error(line, "nested too deeply"); }

class DepthGuard {
 public:
  explicit DepthGuard(std::size_t& depth) : depth_(depth) { ++depth_; }
  ~DepthGuard() { --depth_; }
  DepthGuard(const DepthGuard&) = delete;
  DepthGuard& operator=(const DepthGuard&) = delete;

 private:
  std::size_t& depth_;
};

}  // namespace

ExpressionPtr ExpressionParser::make(ExpressionKind kind, int line) const {
  auto node = std::make_unique<Expression>();
  node->kind = kind;
  node->line = line;
  return node;
}

Result<void> ExpressionParser::adopt(Expression& parent, ExpressionPtr child) const {
  if (child != nullptr) {
    parent.height = std::max(parent.height, child->height + 1);
    if (parent.height > max_tree_height) return too_deep(parent.line);
  }
  parent.children.push_back(std::move(child));
  return ok();
}

Result<ExpressionPtr> ExpressionParser::wrap(ExpressionKind kind, int line,
                                             ExpressionPtr child) const {
  ExpressionPtr node = make(kind, line);
  BATON_TRY(adopt(*node, std::move(child)));
  return node;
}

Result<ExpressionPtr> ExpressionParser::expression() {
  if (depth_ >= max_tree_height) return too_deep(tokens_.line());
  const DepthGuard guard(depth_);
  return conditional();
}

bool ExpressionParser::tuple_ends() const {
  return tokens_.at(TokenKind::variable_end) || tokens_.at(TokenKind::block_end) ||
         tokens_.at_symbol(")");
}

Result<ExpressionPtr> ExpressionParser::tuple(bool conditional) {
  const int line = tokens_.line();
  if (tuple_ends()) return tokens_.unexpected("an expression");
  const auto next = [&] { return conditional ? expression() : logical_or(); };
  BATON_ASSIGN(ExpressionPtr first, next());
  if (!tokens_.at_symbol(",")) return first;
  ExpressionPtr node = make(ExpressionKind::tuple, line);
  BATON_TRY(adopt(*node, std::move(first)));
  while (tokens_.skip_symbol(",") && !tuple_ends()) {
    BATON_ASSIGN(ExpressionPtr item, next());
    BATON_TRY(adopt(*node, std::move(item)));
  }
  return node;
}

Result<ExpressionPtr> ExpressionParser::conditional() {
  const int line = tokens_.line();
  BATON_ASSIGN(ExpressionPtr value, logical_or());
  while (tokens_.skip_word("if")) {
    BATON_ASSIGN(ExpressionPtr condition, logical_or());
    ExpressionPtr otherwise;
    if (tokens_.skip_word("else")) {
      BATON_ASSIGN(otherwise, expression());
    }
    BATON_ASSIGN(ExpressionPtr node, wrap(ExpressionKind::conditional, line, std::move(condition)));
    BATON_TRY(adopt(*node, std::move(value)));
    BATON_TRY(adopt(*node, std::move(otherwise)));
    value = std::move(node);
  }
  return value;
}

Result<ExpressionPtr> ExpressionParser::logical_or() {
  const int line = tokens_.line();
  BATON_ASSIGN(ExpressionPtr left, logical_and());
  while (tokens_.skip_word("or")) {
    BATON_ASSIGN(ExpressionPtr right, logical_and());
    BATON_ASSIGN(left, wrap(ExpressionKind::logical_or, line, std::move(left)));
    BATON_TRY(adopt(*left, std::move(right)));
  }
  return left;
}

Result<ExpressionPtr> ExpressionParser::logical_and() {
  const int line = tokens_.line();
  BATON_ASSIGN(ExpressionPtr left, logical_not());
  while (tokens_.skip_word("and")) {
    BATON_ASSIGN(ExpressionPtr right, logical_not());
    BATON_ASSIGN(left, wrap(ExpressionKind::logical_and, line, std::move(left)));
    BATON_TRY(adopt(*left, std::move(right)));
  }
  return left;
}

Result<ExpressionPtr> ExpressionParser::logical_not() {
  const int line = tokens_.line();
  if (!tokens_.skip_word("not")) return compare();
  if (depth_ >= max_tree_height) return too_deep(line);
  const DepthGuard guard(depth_);
  BATON_ASSIGN(ExpressionPtr operand, logical_not());
  return wrap(ExpressionKind::logical_not, line, std::move(operand));
}

bool ExpressionParser::compare_operator(Operator& op) {
  constexpr SymbolOperator symbols[] = {{"==", Operator::equal},  {"!=", Operator::not_equal},
                                        {"<", Operator::less},    {"<=", Operator::less_equal},
                                        {">", Operator::greater}, {">=", Operator::greater_equal}};
  for (const SymbolOperator& candidate : symbols) {
    if (tokens_.skip_symbol(candidate.symbol)) {
      op = candidate.op;
      return true;
    }
  }
  if (tokens_.skip_word("in")) {
    op = Operator::in;
    return true;
  }
  if (tokens_.at_word("not") && tokens_.ahead().is(TokenKind::name, "in")) {
    tokens_.take();
    tokens_.take();
    op = Operator::not_in;
    return true;
  }
  return false;
}

Result<ExpressionPtr> ExpressionParser::compare() {
  const int line = tokens_.line();
  BATON_ASSIGN(ExpressionPtr first, sum());
  Operator op{};
  if (!compare_operator(op)) return first;
  BATON_ASSIGN(ExpressionPtr node, wrap(ExpressionKind::compare, line, std::move(first)));
  do {
    BATON_ASSIGN(ExpressionPtr operand, sum());
    BATON_TRY(adopt(*node, std::move(operand)));
    node->operators.push_back(op);
  } while (compare_operator(op));
  return node;
}

Result<ExpressionPtr> ExpressionParser::binary(Rule operand,
                                               std::initializer_list<SymbolOperator> operators) {
  const int line = tokens_.line();
  BATON_ASSIGN(ExpressionPtr left, (this->*operand)());
  while (true) {
    const SymbolOperator* found = nullptr;
    for (const SymbolOperator& candidate : operators) {
      if (tokens_.at_symbol(candidate.symbol)) found = &candidate;
    }
    if (found == nullptr) return left;
    tokens_.take();
    BATON_ASSIGN(ExpressionPtr right, (this->*operand)());
    BATON_ASSIGN(left, wrap(ExpressionKind::arithmetic, line, std::move(left)));
    BATON_TRY(adopt(*left, std::move(right)));
    left->operators.push_back(found->op);
  }
}

Result<ExpressionPtr> ExpressionParser::sum() {
  return binary(&ExpressionParser::concat, {{"+", Operator::add}, {"-", Operator::subtract}});
}

Result<ExpressionPtr> ExpressionParser::concat() {
  const int line = tokens_.line();
  BATON_ASSIGN(ExpressionPtr first, product());
  if (!tokens_.at_symbol("~")) return first;
  BATON_ASSIGN(ExpressionPtr node, wrap(ExpressionKind::concat, line, std::move(first)));
  while (tokens_.skip_symbol("~")) {
    BATON_ASSIGN(ExpressionPtr part, product());
    BATON_TRY(adopt(*node, std::move(part)));
  }
  return node;
}

Result<ExpressionPtr> ExpressionParser::product() {
  return binary(&ExpressionParser::power, {{"*", Operator::multiply},
                                           {"/", Operator::divide},
                                           {"//", Operator::floor_divide},
                                           {"%", Operator::modulo}});
}

Result<ExpressionPtr> ExpressionParser::power() {
  return binary(&ExpressionParser::unary_with_filters, {{"**", Operator::power}});
}

Result<ExpressionPtr> ExpressionParser::unary_with_filters() {
  BATON_ASSIGN(ExpressionPtr node, unary());
  return filters_and_tests(std::move(node));
}

Result<ExpressionPtr> ExpressionParser::unary() {
  const int line = tokens_.line();
  if (tokens_.at_symbol("-") || tokens_.at_symbol("+")) {
    if (depth_ >= max_tree_height) return too_deep(line);
    const DepthGuard guard(depth_);
    const bool negative = tokens_.take().text == "-";
    BATON_ASSIGN(ExpressionPtr operand, unary());
    BATON_ASSIGN(ExpressionPtr node,
                 wrap(negative ? ExpressionKind::negative : ExpressionKind::positive, line,
                      std::move(operand)));
    return postfix(std::move(node));
  }
  BATON_ASSIGN(ExpressionPtr node, primary());
  return postfix(std::move(node));
}

Result<ExpressionPtr> ExpressionParser::primary() {
  const int line = tokens_.line();
  if (tokens_.at_symbol("(")) return parenthesised();
  if (tokens_.at_symbol("[")) return list_literal();
  if (tokens_.at_symbol("{")) return dict_literal();
  if (tokens_.at(TokenKind::integer) || tokens_.at(TokenKind::floating)) return number();
  ExpressionPtr node = make(ExpressionKind::constant, line);
  if (tokens_.at(TokenKind::string)) {
    std::string text;
    while (tokens_.at(TokenKind::string)) text += tokens_.take().text;
    node->value = Value::trusted(std::move(text));
    return node;
  }
  if (!tokens_.at(TokenKind::name)) return tokens_.unexpected("an expression");
  const std::string name = tokens_.take().text;
  if (name == "true" || name == "True" || name == "false" || name == "False") {
    node->value = Value::boolean(name == "true" || name == "True");
  } else if (name == "none" || name == "None") {
    node->value = Value::none();
  } else {
    node->kind = ExpressionKind::name;
    node->name = name;
  }
  return node;
}

Result<ExpressionPtr> ExpressionParser::number() {
  const Token token = tokens_.take();
  const char* end = token.text.data() + token.text.size();
  ExpressionPtr node = make(ExpressionKind::constant, token.line);
  if (token.kind == TokenKind::integer) {
    std::int64_t value = 0;
    const auto parsed = std::from_chars(token.text.data(), end, value);
    if (parsed.ec != std::errc()) return syntax_error(token.line, "an integer is too large");
    node->value = Value::integer(value);
  } else {
    double value = 0;
    const auto parsed = std::from_chars(token.text.data(), end, value);
    if (parsed.ec != std::errc()) return syntax_error(token.line, "a number is out of range");
    node->value = Value::floating(value);
  }
  return node;
}

Result<ExpressionPtr> ExpressionParser::parenthesised() {
  const int line = tokens_.take().line;
  if (tokens_.skip_symbol(")")) return make(ExpressionKind::tuple, line);
  if (depth_ >= max_tree_height) return too_deep(line);
  const DepthGuard guard(depth_);
  BATON_ASSIGN(ExpressionPtr inner, tuple());
  BATON_TRY(tokens_.expect_symbol(")"));
  return inner;
}

Result<ExpressionPtr> ExpressionParser::list_literal() {
  ExpressionPtr node = make(ExpressionKind::list, tokens_.take().line);
  while (!tokens_.at_symbol("]")) {
    if (!node->children.empty()) BATON_TRY(tokens_.expect_symbol(","));
    if (tokens_.at_symbol("]")) break;
    BATON_ASSIGN(ExpressionPtr item, expression());
    BATON_TRY(adopt(*node, std::move(item)));
  }
  BATON_TRY(tokens_.expect_symbol("]"));
  return node;
}

Result<ExpressionPtr> ExpressionParser::dict_literal() {
  ExpressionPtr node = make(ExpressionKind::dict, tokens_.take().line);
  while (!tokens_.at_symbol("}")) {
    if (!node->children.empty()) BATON_TRY(tokens_.expect_symbol(","));
    if (tokens_.at_symbol("}")) break;
    BATON_ASSIGN(ExpressionPtr key, expression());
    BATON_TRY(tokens_.expect_symbol(":"));
    BATON_ASSIGN(ExpressionPtr value, expression());
    BATON_TRY(adopt(*node, std::move(key)));
    BATON_TRY(adopt(*node, std::move(value)));
  }
  BATON_TRY(tokens_.expect_symbol("}"));
  return node;
}

Result<ExpressionPtr> ExpressionParser::postfix(ExpressionPtr node) {
  while (true) {
    if (tokens_.at_symbol(".") || tokens_.at_symbol("[")) {
      BATON_ASSIGN(node, subscript(std::move(node)));
    } else if (tokens_.at_symbol("(")) {
      BATON_ASSIGN(node, call(std::move(node)));
    } else {
      return node;
    }
  }
}

Result<ExpressionPtr> ExpressionParser::subscript(ExpressionPtr node) {
  const Token opening = tokens_.take();
  if (opening.text == "[") {
    BATON_ASSIGN(ExpressionPtr out, wrap(ExpressionKind::item, opening.line, std::move(node)));
    BATON_ASSIGN(ExpressionPtr index, subscript_index());
    BATON_TRY(adopt(*out, std::move(index)));
    BATON_TRY(tokens_.expect_symbol("]"));
    return out;
  }
  if (tokens_.at(TokenKind::integer)) {
    BATON_ASSIGN(ExpressionPtr out, wrap(ExpressionKind::item, opening.line, std::move(node)));
    BATON_ASSIGN(ExpressionPtr index, number());
    BATON_TRY(adopt(*out, std::move(index)));
    return out;
  }
  BATON_ASSIGN(ExpressionPtr out, wrap(ExpressionKind::attribute, opening.line, std::move(node)));
  BATON_ASSIGN(out->name, tokens_.expect_name());
  return out;
}

Result<ExpressionPtr> ExpressionParser::subscript_index() {
  const int line = tokens_.line();
  ExpressionPtr start;
  if (!tokens_.at_symbol(":")) {
    BATON_ASSIGN(start, expression());
    if (!tokens_.at_symbol(":")) return start;
  }
  BATON_ASSIGN(ExpressionPtr node, wrap(ExpressionKind::slice, line, std::move(start)));
  for (int part = 0; part < 2; ++part) {
    ExpressionPtr bound;
    if (tokens_.skip_symbol(":") && !tokens_.at_symbol(":") && !tokens_.at_symbol("]")) {
      BATON_ASSIGN(bound, expression());
    }
    BATON_TRY(adopt(*node, std::move(bound)));
  }
  return node;
}

Result<ExpressionPtr> ExpressionParser::call(ExpressionPtr callee) {
  BATON_ASSIGN(ExpressionPtr node, wrap(ExpressionKind::call, tokens_.line(), std::move(callee)));
  BATON_TRY(arguments(*node));
  return node;
}

Result<void> ExpressionParser::arguments(Expression& into) {
  BATON_TRY(tokens_.expect_symbol("("));
  bool first = true;
  while (!tokens_.at_symbol(")")) {
    if (!first) BATON_TRY(tokens_.expect_symbol(","));
    if (tokens_.at_symbol(")")) break;
    first = false;
    if (tokens_.at_symbol("*") || tokens_.at_symbol("**")) {
      return syntax_error(tokens_.line(), "* and ** arguments are not supported");
    }
    if (tokens_.at(TokenKind::name) && tokens_.ahead().is(TokenKind::symbol, "=")) {
      std::string name = tokens_.take().text;
      tokens_.take();
      BATON_ASSIGN(ExpressionPtr value, expression());
      into.height = std::max(into.height, value->height + 1);
      if (into.height > max_tree_height) return too_deep(into.line);
      into.keywords.emplace_back(std::move(name), std::move(value));
      continue;
    }
    if (!into.keywords.empty()) {
      return syntax_error(tokens_.line(), "a positional argument follows a named one");
    }
    BATON_ASSIGN(ExpressionPtr value, expression());
    BATON_TRY(adopt(into, std::move(value)));
  }
  return tokens_.expect_symbol(")");
}

Result<ExpressionPtr> ExpressionParser::filters_and_tests(ExpressionPtr node) {
  while (true) {
    if (tokens_.skip_symbol("|")) {
      BATON_ASSIGN(node, filter(std::move(node)));
    } else if (tokens_.skip_word("is")) {
      BATON_ASSIGN(node, test(std::move(node)));
    } else if (tokens_.at_symbol("(")) {
      BATON_ASSIGN(node, call(std::move(node)));
    } else {
      return node;
    }
  }
}

Result<ExpressionPtr> ExpressionParser::filter(ExpressionPtr input) {
  BATON_ASSIGN(ExpressionPtr node, wrap(ExpressionKind::filter, tokens_.line(), std::move(input)));
  BATON_ASSIGN(node->name, tokens_.expect_name());
  if (tokens_.at_symbol("(")) BATON_TRY(arguments(*node));
  return node;
}

Result<ExpressionPtr> ExpressionParser::filters_only(bool first_without_pipe) {
  ExpressionPtr node;
  if (first_without_pipe) {
    BATON_ASSIGN(node, filter(nullptr));
  }
  while (tokens_.skip_symbol("|")) {
    BATON_ASSIGN(node, filter(std::move(node)));
  }
  return node;
}

bool ExpressionParser::test_argument_follows() const {
  switch (tokens_.current().kind) {
    case TokenKind::name:
      return !tokens_.at_word("else") && !tokens_.at_word("or") && !tokens_.at_word("and");
    case TokenKind::string:
    case TokenKind::integer:
    case TokenKind::floating:
      return true;
    default:
      return tokens_.at_symbol("[") || tokens_.at_symbol("{");
  }
}

Result<ExpressionPtr> ExpressionParser::test(ExpressionPtr subject) {
  const int line = tokens_.line();
  const bool negated = tokens_.skip_word("not");
  BATON_ASSIGN(ExpressionPtr node, wrap(ExpressionKind::test, line, std::move(subject)));
  BATON_ASSIGN(node->name, tokens_.expect_name());
  if (tokens_.at_symbol("(")) {
    BATON_TRY(arguments(*node));
  } else if (test_argument_follows()) {
    if (tokens_.at_word("is")) return syntax_error(line, "tests with 'is' cannot be chained");
    BATON_ASSIGN(ExpressionPtr argument, primary());
    BATON_ASSIGN(argument, postfix(std::move(argument)));
    BATON_TRY(adopt(*node, std::move(argument)));
  }
  if (!negated) return node;
  return wrap(ExpressionKind::logical_not, line, std::move(node));
}

}  // namespace baton::tokenizer::jinja
