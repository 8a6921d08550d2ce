// The syntax tree of a template. Uniform nodes: what the children of a kind mean stands beside it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "baton/tokenizer/jinja/value.h"

namespace baton::tokenizer::jinja {

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;

enum class ExpressionKind : std::uint8_t {
  constant,     // value
  name,         // name
  list,         // children: items
  tuple,        // children: items
  dict,         // children: key, value, key, value, …
  attribute,    // children: object; name
  item,         // children: object, index
  slice,        // children: start, stop, step (each may be null); only as index of an item
  call,         // children: callee, arguments…; keywords
  filter,       // children: input (null in filter blocks), arguments…; name; keywords
  test,         // children: subject, arguments…; name; keywords
  logical_not,  // children: operand
  negative,     // children: operand
  positive,     // children: operand
  logical_and,  // children: left, right
  logical_or,   // children: left, right
  arithmetic,   // children: left, right; operators[0]
  concat,       // children: parts
  compare,      // children: first, then one for each of operators
  conditional,  // children: condition, then, else (may be null)
};

enum class Operator : std::uint8_t {
  add,
  subtract,
  multiply,
  divide,
  floor_divide,
  modulo,
  power,
  equal,
  not_equal,
  less,
  less_equal,
  greater,
  greater_equal,
  in,
  not_in,
};

struct Expression {
  ExpressionKind kind = ExpressionKind::constant;
  int line = 0;
  std::size_t height = 1;  ///< of the tree below; bounded by the parser
  std::string name;
  Value value;
  std::vector<ExpressionPtr> children;
  std::vector<std::pair<std::string, ExpressionPtr>> keywords;
  std::vector<Operator> operators;
};

struct Statement;
using Block = std::vector<Statement>;

/// `names` are variables, or one `name.attribute` of a namespace.
struct Target {
  std::vector<std::string> names;
  std::string attribute;
  bool unpack = false;  ///< a tuple of names, also of one name
};

enum class StatementKind : std::uint8_t {
  data,          // text
  print,         // expressions[0]
  condition,     // expressions: one per branch, null for else; bodies: one per branch
  loop,          // target; expressions: iterable, filter (may be null); bodies: body, else
  set,           // target; expressions[0]
  set_block,     // target; expressions[0]: filters over a null input, or null; bodies[0]
  macro,         // name; parameters; bodies[0]
  call_block,    // expressions[0]: the call; parameters of `caller`; bodies[0]
  filter_block,  // expressions[0]: filters over a null input; bodies[0]
  with,          // targets with expressions, pairwise (targets in `parameters`); bodies[0]
  scope,         // bodies[0]: variables set inside stay inside ({% generation %})
  break_loop,
  continue_loop,
};

/// A macro's parameter with its default, or a name and value of {% with %}.
struct Parameter {
  std::string name;
  ExpressionPtr value;  ///< may be null
};

struct Statement {
  StatementKind kind = StatementKind::data;
  int line = 0;
  std::string text;
  std::string name;
  Target target;
  std::vector<ExpressionPtr> expressions;
  std::vector<Parameter> parameters;
  std::vector<Block> bodies;
};

}  // namespace baton::tokenizer::jinja
