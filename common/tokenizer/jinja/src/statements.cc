#include <algorithm>
#include <utility>

#include "interpreter.h"

namespace baton::tokenizer::jinja {

// A new innermost scope for as long as it lives.
class Interpreter::FrameScope {
 public:
  FrameScope(Interpreter& interpreter, std::shared_ptr<Frame> parent)
      : interpreter_(interpreter), outer_(interpreter.frame_) {
    interpreter_.frame_ = std::make_shared<Frame>();
    interpreter_.frame_->parent = std::move(parent);
  }
  explicit FrameScope(Interpreter& interpreter) : FrameScope(interpreter, interpreter.frame_) {}
  ~FrameScope() { interpreter_.frame_ = outer_; }
  FrameScope(const FrameScope&) = delete;
  FrameScope& operator=(const FrameScope&) = delete;

 private:
  Interpreter& interpreter_;
  std::shared_ptr<Frame> outer_;
};

// Output goes to another text for as long as it lives.
class Interpreter::SinkScope {
 public:
  SinkScope(Interpreter& interpreter, Text& sink)
      : interpreter_(interpreter), outer_(std::exchange(interpreter.sink_, &sink)) {}
  ~SinkScope() { interpreter_.sink_ = outer_; }
  SinkScope(const SinkScope&) = delete;
  SinkScope& operator=(const SinkScope&) = delete;

 private:
  Interpreter& interpreter_;
  Text* outer_;
};

Interpreter::Interpreter(const Value& context, const RenderOptions& options)
    : context_(context), options_(options), frame_(std::make_shared<Frame>()) {}

Interpreter::~Interpreter() {
  for (const auto& object : kept_) object->release();
}

Result<Text> Interpreter::run(const Block& block) {
  if (!context_.is(Kind::dict)) return fail("the context is no dict");
  if (context_.depth() > options_.limits.max_value_depth) {
    return fail("the values are nested too deeply");
  }
  return capture(block);
}

Result<Text> Interpreter::capture(const Block& block) {
  Text out;
  const SinkScope scope(*this, out);
  BATON_TRY(execute(block));
  return out;
}

Result<void> Interpreter::write(std::string_view text) {
  BATON_TRY(charge(text.size()));
  if (text.size() > options_.limits.max_output_bytes - sink_->size()) {
    return fail("the output limit is exceeded");
  }
  sink_->append(text);
  return ok();
}

Result<void> Interpreter::write(const Text& text) {
  BATON_TRY(charge(text.size()));
  if (text.size() > options_.limits.max_output_bytes - sink_->size()) {
    return fail("the output limit is exceeded");
  }
  sink_->append(text);
  return ok();
}

Result<Interpreter::Flow> Interpreter::execute(const Block& block) {
  BATON_TRY(check_depth());
  const DepthScope scope(depth_);
  for (const Statement& statement : block) {
    BATON_ASSIGN(const Flow flow, execute(statement));
    if (flow != Flow::normal) return flow;
  }
  return Flow::normal;
}

Result<Interpreter::Flow> Interpreter::execute(const Statement& statement) {
  const auto plain = [](const Result<void>& done) -> Result<Flow> {
    if (done.has_error()) return done.error();
    return Flow::normal;
  };
  line_ = statement.line;
  switch (statement.kind) {
    case StatementKind::data:
      return plain(write(std::string_view(statement.text)));
    case StatementKind::print: {
      BATON_ASSIGN(const Value value, evaluate(*statement.expressions[0]));
      BATON_ASSIGN(const Text text, to_text(value));
      return plain(write(text));
    }
    case StatementKind::condition:
      return condition(statement);
    case StatementKind::loop:
      return loop(statement);
    case StatementKind::set:
      return plain(set(statement));
    case StatementKind::set_block:
      return plain(set_block(statement));
    case StatementKind::macro:
      frame_->variables[statement.name] = Value::object(std::make_shared<Macro>(statement, frame_));
      return Flow::normal;
    case StatementKind::call_block:
      return plain(call_block(statement));
    case StatementKind::filter_block:
      return plain(filter_block(statement));
    case StatementKind::with:
      return with(statement);
    case StatementKind::scope:
      return scope(statement);
    case StatementKind::break_loop:
      return Flow::break_loop;
    case StatementKind::continue_loop:
      return Flow::continue_loop;
  }
  return Flow::normal;
}

Result<Interpreter::Flow> Interpreter::condition(const Statement& statement) {
  for (std::size_t i = 0; i < statement.bodies.size(); ++i) {
    if (statement.expressions[i] != nullptr) {
      BATON_ASSIGN(const Value test, evaluate(*statement.expressions[i]));
      if (!test.truthy()) continue;
    }
    return execute(statement.bodies[i]);
  }
  return Flow::normal;
}

Result<std::vector<Value>> Interpreter::loop_items(const Statement& statement) {
  BATON_ASSIGN(const Value iterable, evaluate(*statement.expressions[0]));
  BATON_ASSIGN(std::vector<Value> items, iterate(iterable));
  if (statement.expressions[1] == nullptr) return items;
  std::vector<Value> kept;
  for (Value& item : items) {
    const FrameScope scope(*this);
    BATON_TRY(assign(statement.target, item));
    BATON_ASSIGN(const Value test, evaluate(*statement.expressions[1]));
    if (test.truthy()) kept.push_back(std::move(item));
  }
  return kept;
}

Result<Interpreter::Flow> Interpreter::loop(const Statement& statement) {
  BATON_ASSIGN(std::vector<Value> items, loop_items(statement));
  if (items.empty()) {
    const FrameScope scope(*this);
    return execute(statement.bodies[1]);
  }
  BATON_ASSIGN(Value list, list_value(std::move(items)));
  return loop_body(statement, std::make_shared<Loop>(std::move(list)));
}

Result<Interpreter::Flow> Interpreter::loop_body(const Statement& statement,
                                                 const std::shared_ptr<Loop>& loop) {
  for (loop->index = 0; loop->index < loop->items().size(); ++loop->index) {
    const FrameScope scope(*this);
    line_ = statement.line;
    BATON_TRY(charge());
    frame_->variables["loop"] = Value::object(loop);
    BATON_TRY(assign(statement.target, loop->items()[loop->index]));
    BATON_ASSIGN(const Flow flow, execute(statement.bodies[0]));
    if (flow == Flow::break_loop) break;
  }
  return Flow::normal;
}

Result<void> Interpreter::assign(const Target& target, const Value& value) {
  if (!target.attribute.empty()) {
    BATON_ASSIGN(const Value object, lookup(target.names[0]));
    auto* space =
        object.is(Kind::object) ? dynamic_cast<Namespace*>(object.as_object().get()) : nullptr;
    if (space == nullptr) return fail("only a namespace's attributes can be set");
    space->attributes[target.attribute] = value;
    return ok();
  }
  if (!target.unpack) {
    frame_->variables[target.names[0]] = value;
    return ok();
  }
  BATON_ASSIGN(const std::vector<Value> items, iterate(value));
  if (items.size() != target.names.size()) {
    return fail("cannot unpack " + std::to_string(items.size()) + " values into " +
                std::to_string(target.names.size()) + " names");
  }
  for (std::size_t i = 0; i < items.size(); ++i) frame_->variables[target.names[i]] = items[i];
  return ok();
}

Result<void> Interpreter::set(const Statement& statement) {
  BATON_ASSIGN(const Value value, evaluate(*statement.expressions[0]));
  return assign(statement.target, value);
}

Result<void> Interpreter::set_block(const Statement& statement) {
  Value value;
  {
    const FrameScope scope(*this);
    BATON_ASSIGN(Text text, capture(statement.bodies[0]));
    value = Value::text(std::move(text));
  }
  if (statement.expressions[0] != nullptr) {
    filter_block_input_ = std::move(value);
    BATON_ASSIGN(value, evaluate(*statement.expressions[0]));
  }
  return assign(statement.target, value);
}

Result<void> Interpreter::filter_block(const Statement& statement) {
  const FrameScope scope(*this);
  BATON_ASSIGN(Text text, capture(statement.bodies[0]));
  filter_block_input_ = Value::text(std::move(text));
  BATON_ASSIGN(const Value value, evaluate(*statement.expressions[0]));
  BATON_ASSIGN(const Text filtered, to_text(value));
  return write(filtered);
}

Result<Interpreter::Flow> Interpreter::with(const Statement& statement) {
  std::vector<Value> values;
  for (const Parameter& variable : statement.parameters) {
    BATON_ASSIGN(Value value, evaluate(*variable.value));
    values.push_back(std::move(value));
  }
  const FrameScope scope(*this);
  for (std::size_t i = 0; i < values.size(); ++i) {
    frame_->variables[statement.parameters[i].name] = values[i];
  }
  return execute(statement.bodies[0]);
}

Result<Interpreter::Flow> Interpreter::scope(const Statement& statement) {
  const FrameScope scope(*this);
  return execute(statement.bodies[0]);
}

Result<void> Interpreter::call_block(const Statement& statement) {
  const Expression& call_node = *statement.expressions[0];
  BATON_ASSIGN(const Value callee, evaluate(*call_node.children[0]));
  BATON_ASSIGN(Arguments arguments, evaluate_arguments(call_node));
  arguments.named.emplace_back("caller", Value::object(std::make_shared<Macro>(statement, frame_)));
  BATON_ASSIGN(const Value value, call(callee, arguments));
  BATON_ASSIGN(const Text text, to_text(value));
  return write(text);
}

Result<void> Interpreter::bind_parameters(const Statement& macro, const Arguments& arguments) {
  const std::vector<Parameter>& parameters = macro.parameters;
  if (arguments.positional.size() > parameters.size()) {
    return fail("the macro takes at most " + std::to_string(parameters.size()) + " arguments");
  }
  for (const auto& [name, value] : arguments.named) {
    const bool known =
        name == "caller" || std::any_of(parameters.begin(), parameters.end(),
                                        [&](const Parameter& p) { return p.name == name; });
    if (!known) return fail("the macro takes no argument '" + name + "'");
    frame_->variables[name] = value;
  }
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Parameter& parameter = parameters[i];
    if (i < arguments.positional.size()) {
      frame_->variables[parameter.name] = arguments.positional[i];
    } else if (frame_->variables.count(parameter.name) == 0) {
      Value value = Value::undefined("parameter '" + parameter.name + "'");
      if (parameter.value != nullptr) {
        BATON_ASSIGN(value, evaluate(*parameter.value));
      }
      frame_->variables[parameter.name] = std::move(value);
    }
  }
  return ok();
}

Result<Value> Interpreter::call_macro(const Macro& macro, const Arguments& arguments) {
  const FrameScope scope(*this, macro.defined_in());
  const int line = line_;
  BATON_TRY(bind_parameters(macro.statement(), arguments));
  BATON_ASSIGN(Text text, capture(macro.statement().bodies[0]));
  line_ = line;
  return Value::text(std::move(text));
}

}  // namespace baton::tokenizer::jinja
