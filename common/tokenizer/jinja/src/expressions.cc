#include "interpreter.h"

namespace baton::tokenizer::jinja {

Error Interpreter::fail(std::string_view problem) const {
  return {Reason::invalid_request,
          "chat template, line " + std::to_string(line_) + ": " + std::string(problem)};
}

Result<void> Interpreter::check_depth() const {
  if (depth_ >= options_.limits.max_depth) return fail("the recursion limit is exceeded");
  return ok();
}

Result<void> Interpreter::charge(std::size_t bytes) {
  steps_ += 1 + bytes / 16;
  if (steps_ > options_.limits.max_steps) return fail("the step limit is exceeded");
  return ok();
}

Result<void> Interpreter::charge_value(const Value& value) {
  BATON_TRY(charge(value.is(Kind::text) ? value.as_text().size() : 0));
  if (value.is_sequence()) {
    for (const Value& item : value.as_items()) BATON_TRY(charge_value(item));
  }
  if (value.is(Kind::dict)) {
    for (const auto& [key, entry] : value.as_dict().entries()) {
      BATON_TRY(charge_value(key));
      BATON_TRY(charge_value(entry));
    }
  }
  return ok();
}

Result<Value> Interpreter::text_value(Text text) {
  BATON_TRY(charge(text.size()));
  if (text.size() > options_.limits.max_output_bytes) return fail("the output limit is exceeded");
  return Value::text(std::move(text));
}

Result<Value> Interpreter::list_value(std::vector<Value> items, bool is_tuple) {
  BATON_TRY(charge(items.size() * sizeof(Value)));
  Value value = is_tuple ? Value::tuple(std::move(items)) : Value::list(std::move(items));
  if (value.depth() > options_.limits.max_value_depth) {
    return fail("the values are nested too deeply");
  }
  return value;
}

Result<Value> Interpreter::dict_value(std::vector<std::pair<Value, Value>> entries) {
  BATON_TRY(charge(entries.size() * 2 * sizeof(Value)));
  for (const auto& [key, value] : entries) {
    if (!is_hashable(key)) return fail("a key is " + describe(key));
  }
  Value value = Value::dict(std::move(entries));
  if (value.depth() > options_.limits.max_value_depth) {
    return fail("the values are nested too deeply");
  }
  return value;
}

Result<Value> Interpreter::evaluate(const Expression& expression) {
  BATON_TRY(check_depth());
  const DepthScope scope(depth_);
  line_ = expression.line;
  BATON_TRY(charge());
  return evaluate_kind(expression);
}

Result<Value> Interpreter::evaluate_kind(const Expression& expression) {
  switch (expression.kind) {
    case ExpressionKind::constant:
      return expression.value;
    case ExpressionKind::name:
      return lookup(expression.name);
    case ExpressionKind::list:
    case ExpressionKind::tuple: {
      BATON_ASSIGN(std::vector<Value> items, evaluate_all(expression.children, 0));
      return list_value(std::move(items), expression.kind == ExpressionKind::tuple);
    }
    case ExpressionKind::dict:
      return dict_literal(expression);
    case ExpressionKind::attribute: {
      BATON_ASSIGN(const Value object, evaluate(*expression.children[0]));
      return attribute(object, expression.name);
    }
    case ExpressionKind::item:
      return item_expression(expression);
    case ExpressionKind::slice:
      return fail("a slice stands only in brackets");
    case ExpressionKind::call:
      return call_expression(expression);
    case ExpressionKind::filter:
      return filter_expression(expression);
    case ExpressionKind::test:
      return test_expression(expression);
    case ExpressionKind::logical_not:
    case ExpressionKind::logical_and:
    case ExpressionKind::logical_or:
      return logical(expression);
    case ExpressionKind::negative:
    case ExpressionKind::positive: {
      BATON_ASSIGN(const Value operand, evaluate(*expression.children[0]));
      if (!operand.is_number()) return fail("a sign stands before " + describe(operand));
      if (expression.kind == ExpressionKind::negative) return negative(*this, operand);
      return arithmetic(*this, Operator::add, Value::integer(0), operand);
    }
    case ExpressionKind::arithmetic: {
      BATON_ASSIGN(const Value left, evaluate(*expression.children[0]));
      BATON_ASSIGN(const Value right, evaluate(*expression.children[1]));
      return arithmetic(*this, expression.operators[0], left, right);
    }
    case ExpressionKind::concat:
      return concat(expression);
    case ExpressionKind::compare:
      return compare_chain(expression);
    case ExpressionKind::conditional:
      return conditional(expression);
  }
  return fail("unknown expression");
}

Result<Value> Interpreter::lookup(const std::string& name) {
  for (const Frame* frame = frame_.get(); frame != nullptr; frame = frame->parent.get()) {
    const auto found = frame->variables.find(name);
    if (found != frame->variables.end()) return found->second;
  }
  if (const Value* found = context_.as_dict().find(name)) return *found;
  if (auto function = find_function(name, options_)) return Value::object(std::move(function));
  return Value::undefined("'" + name + "'");
}

Result<std::vector<Value>> Interpreter::evaluate_all(const std::vector<ExpressionPtr>& expressions,
                                                     std::size_t from) {
  std::vector<Value> out;
  out.reserve(expressions.size() - from);
  for (std::size_t i = from; i < expressions.size(); ++i) {
    BATON_ASSIGN(Value value, evaluate(*expressions[i]));
    out.push_back(std::move(value));
  }
  return out;
}

Result<Arguments> Interpreter::evaluate_arguments(const Expression& expression) {
  Arguments out;
  BATON_ASSIGN(out.positional, evaluate_all(expression.children, 1));
  for (const auto& [name, node] : expression.keywords) {
    BATON_ASSIGN(Value value, evaluate(*node));
    out.named.emplace_back(name, std::move(value));
  }
  return out;
}

Result<Value> Interpreter::dict_literal(const Expression& expression) {
  BATON_ASSIGN(std::vector<Value> flat, evaluate_all(expression.children, 0));
  std::vector<std::pair<Value, Value>> entries;
  for (std::size_t i = 0; i + 1 < flat.size(); i += 2) {
    entries.emplace_back(std::move(flat[i]), std::move(flat[i + 1]));
  }
  return dict_value(std::move(entries));
}

Result<Value> Interpreter::item_expression(const Expression& expression) {
  BATON_ASSIGN(const Value object, evaluate(*expression.children[0]));
  const Expression& index = *expression.children[1];
  if (index.kind == ExpressionKind::slice) return slice_expression(object, index);
  BATON_ASSIGN(const Value key, evaluate(index));
  return item(object, key);
}

Result<Value> Interpreter::slice_expression(const Value& object, const Expression& slice_node) {
  SliceBounds bounds;
  std::optional<std::int64_t>* parts[] = {&bounds.start, &bounds.stop, &bounds.step};
  for (std::size_t i = 0; i < slice_node.children.size(); ++i) {
    if (slice_node.children[i] == nullptr) continue;
    BATON_ASSIGN(const Value value, evaluate(*slice_node.children[i]));
    if (value.is(Kind::none)) continue;
    if (value.is(Kind::boolean)) {
      *parts[i] = value.as_boolean() ? 1 : 0;
    } else if (value.is(Kind::integer)) {
      *parts[i] = value.as_integer();
    } else {
      return fail("a slice is bounded by " + describe(value));
    }
  }
  return slice(*this, object, bounds);
}

Result<Value> Interpreter::call_expression(const Expression& expression) {
  BATON_ASSIGN(const Value callee, evaluate(*expression.children[0]));
  BATON_ASSIGN(const Arguments arguments, evaluate_arguments(expression));
  line_ = expression.line;
  return call(callee, arguments);
}

Result<Value> Interpreter::call(const Value& callee, const Arguments& arguments) {
  if (callee.is(Kind::undefined)) return fail(callee.undefined_hint() + " is undefined");
  if (!callee.is(Kind::object)) return fail(describe(callee) + " cannot be called");
  BATON_TRY(check_depth());
  const DepthScope scope(depth_);
  const std::shared_ptr<Object> object = callee.as_object();
  if (const auto* macro = dynamic_cast<const Macro*>(object.get())) {
    return call_macro(*macro, arguments);
  }
  if (const auto* method = dynamic_cast<const BoundMethod*>(object.get())) {
    return call_method(*this, method->self(), method->name(), arguments);
  }
  if (const auto* function = dynamic_cast<const Function*>(object.get())) {
    return call_function(*this, function->name(), arguments);
  }
  return fail(describe(callee) + " cannot be called");
}

Result<Value> Interpreter::filter_expression(const Expression& expression) {
  Value input;
  if (expression.children[0] != nullptr) {
    BATON_ASSIGN(input, evaluate(*expression.children[0]));
  } else {
    input = std::move(*filter_block_input_);
    filter_block_input_.reset();
  }
  BATON_ASSIGN(const Arguments arguments, evaluate_arguments(expression));
  line_ = expression.line;
  return apply_filter(expression.name, input, arguments);
}

Result<Value> Interpreter::test_expression(const Expression& expression) {
  BATON_ASSIGN(const Value subject, evaluate(*expression.children[0]));
  BATON_ASSIGN(const Arguments arguments, evaluate_arguments(expression));
  line_ = expression.line;
  return apply_test(expression.name, subject, arguments);
}

// `and` and `or` give one of their operands, as in Python.
Result<Value> Interpreter::logical(const Expression& expression) {
  BATON_ASSIGN(Value left, evaluate(*expression.children[0]));
  if (expression.kind == ExpressionKind::logical_not) return Value::boolean(!left.truthy());
  const bool decided = left.truthy() == (expression.kind == ExpressionKind::logical_or);
  if (decided) return left;
  return evaluate(*expression.children[1]);
}

Result<Value> Interpreter::concat(const Expression& expression) {
  Text out;
  for (const ExpressionPtr& part : expression.children) {
    BATON_ASSIGN(const Value value, evaluate(*part));
    BATON_ASSIGN(const Text text, to_text(value));
    if (text.size() > options_.limits.max_output_bytes - out.size()) {
      return fail("the output limit is exceeded");
    }
    out.append(text);
  }
  return text_value(std::move(out));
}

Result<Value> Interpreter::compare_chain(const Expression& expression) {
  BATON_ASSIGN(Value left, evaluate(*expression.children[0]));
  for (std::size_t i = 0; i < expression.operators.size(); ++i) {
    BATON_ASSIGN(Value right, evaluate(*expression.children[i + 1]));
    BATON_ASSIGN(const bool holds, compare(*this, expression.operators[i], left, right));
    if (!holds) return Value::boolean(false);
    left = std::move(right);
  }
  return Value::boolean(true);
}

Result<Value> Interpreter::conditional(const Expression& expression) {
  BATON_ASSIGN(const Value test, evaluate(*expression.children[0]));
  if (test.truthy()) return evaluate(*expression.children[1]);
  if (expression.children[2] == nullptr) {
    return Value::undefined("the value of an inline if without else");
  }
  return evaluate(*expression.children[2]);
}

}  // namespace baton::tokenizer::jinja
