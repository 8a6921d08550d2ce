// Expressions, with Jinja2's order of operators.
#pragma once

#include <initializer_list>
#include <string_view>
#include <utility>
#include <vector>

#include "baton/base/result.h"

#include "ast.h"
#include "token_stream.h"

namespace baton::tokenizer::jinja {

/// Deepest nesting of expressions and of statements that is accepted: trees are walked recursively.
constexpr std::size_t max_tree_height = 200;

class ExpressionParser {
 public:
  explicit ExpressionParser(TokenStream& tokens) : tokens_(tokens) {}

  Result<ExpressionPtr> expression();
  /// An expression or, with commas, a tuple; `conditional` false leaves an `if` alone.
  Result<ExpressionPtr> tuple(bool conditional = true);
  /// The filters of a {% filter %} or block set, over a null input. `first_without_pipe`: the name
  /// of the first stands alone.
  Result<ExpressionPtr> filters_only(bool first_without_pipe);

 private:
  using Rule = Result<ExpressionPtr> (ExpressionParser::*)();
  struct SymbolOperator {
    std::string_view symbol;
    Operator op;
  };

  Result<ExpressionPtr> conditional();
  Result<ExpressionPtr> logical_or();
  Result<ExpressionPtr> logical_and();
  Result<ExpressionPtr> logical_not();
  Result<ExpressionPtr> compare();
  Result<ExpressionPtr> sum();
  Result<ExpressionPtr> concat();
  Result<ExpressionPtr> product();
  Result<ExpressionPtr> power();
  Result<ExpressionPtr> unary_with_filters();
  Result<ExpressionPtr> unary();
  Result<ExpressionPtr> primary();
  Result<ExpressionPtr> number();
  Result<ExpressionPtr> parenthesised();
  Result<ExpressionPtr> list_literal();
  Result<ExpressionPtr> dict_literal();
  Result<ExpressionPtr> postfix(ExpressionPtr node);
  Result<ExpressionPtr> subscript(ExpressionPtr node);
  Result<ExpressionPtr> subscript_index();
  Result<ExpressionPtr> call(ExpressionPtr callee);
  Result<void> arguments(Expression& into);
  Result<ExpressionPtr> filters_and_tests(ExpressionPtr node);
  Result<ExpressionPtr> filter(ExpressionPtr input);
  Result<ExpressionPtr> test(ExpressionPtr subject);
  Result<ExpressionPtr> binary(Rule operand, std::initializer_list<SymbolOperator> operators);
  bool compare_operator(Operator& op);
  bool tuple_ends() const;
  bool test_argument_follows() const;

  ExpressionPtr make(ExpressionKind kind, int line) const;
  // Adds a child and keeps the height; fails when the tree gets too high.
  Result<void> adopt(Expression& parent, ExpressionPtr child) const;
  Result<ExpressionPtr> wrap(ExpressionKind kind, int line, ExpressionPtr child) const;

  TokenStream& tokens_;
  std::size_t depth_ = 0;
};

}  // namespace baton::tokenizer::jinja
