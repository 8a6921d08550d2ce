// Walks the tree of a template and writes its text. One interpreter renders once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "baton/base/result.h"
#include "baton/tokenizer/jinja/template.h"
#include "baton/tokenizer/jinja/value.h"

#include "ast.h"
#include "objects.h"

namespace baton::tokenizer::jinja {

class Interpreter {
 public:
  Interpreter(const Value& context, const RenderOptions& options);
  ~Interpreter();
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  Result<Text> run(const Block& block);

  // What filters, tests and methods use.

  /// Counts one step and one for each 16 bytes; fails at the limit.
  Result<void> charge(std::size_t bytes = 0);
  /// The same for all that a value holds.
  Result<void> charge_value(const Value& value);
  /// Text of at most the output limit, its bytes charged.
  Result<Value> text_value(Text text);
  Result<Value> list_value(std::vector<Value> items, bool is_tuple = false);
  Result<Value> dict_value(std::vector<std::pair<Value, Value>> entries);
  /// invalid_request with the current line. `problem` holds no user text.
  Error fail(std::string_view problem) const;
  const RenderOptions& options() const { return options_; }

  /// str(): what {{ value }} prints.
  Result<Text> to_text(const Value& value);
  /// The items that a loop over the value sees: nothing for undefined, characters, keys.
  Result<std::vector<Value>> iterate(const Value& value);
  Result<Value> attribute(const Value& object, const std::string& name);
  Result<Value> item(const Value& object, const Value& key);
  Result<Value> call(const Value& callee, const Arguments& arguments);
  Result<Value> apply_filter(const std::string& name, const Value& input,
                             const Arguments& arguments);
  Result<Value> apply_test(const std::string& name, const Value& subject,
                           const Arguments& arguments);
  /// Keeps an object until the render ends (see MutableObject).
  void keep(std::shared_ptr<MutableObject> object) { kept_.push_back(std::move(object)); }

 private:
  enum class Flow { normal, break_loop, continue_loop };
  class FrameScope;
  class SinkScope;
  // One level of recursion for as long as it lives.
  class DepthScope {
   public:
    explicit DepthScope(std::size_t& depth) : depth_(depth) { ++depth_; }
    ~DepthScope() { --depth_; }
    DepthScope(const DepthScope&) = delete;
    DepthScope& operator=(const DepthScope&) = delete;

   private:
    std::size_t& depth_;
  };

  Result<void> check_depth() const;

  // statements.cc
  Result<Flow> execute(const Block& block);
  Result<Flow> execute(const Statement& statement);
  Result<Flow> condition(const Statement& statement);
  Result<Flow> loop(const Statement& statement);
  Result<Flow> loop_body(const Statement& statement, const std::shared_ptr<Loop>& loop);
  Result<std::vector<Value>> loop_items(const Statement& statement);
  Result<void> set(const Statement& statement);
  Result<void> set_block(const Statement& statement);
  Result<void> call_block(const Statement& statement);
  Result<void> filter_block(const Statement& statement);
  Result<Flow> with(const Statement& statement);
  Result<Flow> scope(const Statement& statement);
  Result<Text> capture(const Block& block);
  Result<void> assign(const Target& target, const Value& value);
  Result<void> write(std::string_view text);
  Result<void> write(const Text& text);
  Result<Value> call_macro(const Macro& macro, const Arguments& arguments);
  Result<void> bind_parameters(const Statement& macro, const Arguments& arguments);

  // expressions.cc
  Result<Value> evaluate(const Expression& expression);
  Result<Value> evaluate_kind(const Expression& expression);
  Result<Value> lookup(const std::string& name);
  Result<std::vector<Value>> evaluate_all(const std::vector<ExpressionPtr>& expressions,
                                          std::size_t from);
  Result<Arguments> evaluate_arguments(const Expression& expression);
  Result<Value> dict_literal(const Expression& expression);
  Result<Value> item_expression(const Expression& expression);
  Result<Value> slice_expression(const Value& object, const Expression& slice);
  Result<Value> call_expression(const Expression& expression);
  Result<Value> filter_expression(const Expression& expression);
  Result<Value> test_expression(const Expression& expression);
  Result<Value> logical(const Expression& expression);
  Result<Value> concat(const Expression& expression);
  Result<Value> compare_chain(const Expression& expression);
  Result<Value> conditional(const Expression& expression);

  const Value& context_;
  const RenderOptions& options_;
  std::uint64_t steps_ = 0;
  std::size_t depth_ = 0;
  int line_ = 0;
  std::shared_ptr<Frame> frame_;
  Text* sink_ = nullptr;
  std::optional<Value> filter_block_input_;  // the null input of filters over a block
  std::vector<std::shared_ptr<MutableObject>> kept_;
};

// operators.cc
Result<Value> arithmetic(Interpreter& interpreter, Operator op, const Value& a, const Value& b);
Result<Value> negative(Interpreter& interpreter, const Value& value);
Result<bool> compare(Interpreter& interpreter, Operator op, const Value& a, const Value& b);
/// Order of two numbers, texts or sequences: negative, 0 or positive.
Result<int> order(Interpreter& interpreter, const Value& a, const Value& b);
/// `needle in container`.
Result<bool> contains(Interpreter& interpreter, const Value& container, const Value& needle);

// access.cc
struct SliceBounds {
  std::optional<std::int64_t> start;
  std::optional<std::int64_t> stop;
  std::optional<std::int64_t> step;
};
Result<Value> slice(Interpreter& interpreter, const Value& object, const SliceBounds& bounds);

// methods.cc
bool has_method(const Value& self, std::string_view name);
Result<Value> call_method(Interpreter& interpreter, const Value& self, const std::string& name,
                          const Arguments& arguments);

// functions.cc
/// nullptr when there is no global function of this name.
std::shared_ptr<Function> find_function(std::string_view name, const RenderOptions& options);
Result<Value> call_function(Interpreter& interpreter, FunctionName name,
                            const Arguments& arguments);

/// False for what Python takes as no key: lists, dicts, and tuples with one of them.
bool is_hashable(const Value& value);

/// "a string", "a list", … for errors.
std::string describe(const Value& value);

/// The arguments of `function` in the order of `names`; fails on more or on unknown names.
Result<std::vector<std::optional<Value>>> bind(Interpreter& interpreter, std::string_view function,
                                               const Arguments& arguments,
                                               std::initializer_list<std::string_view> names);

}  // namespace baton::tokenizer::jinja
