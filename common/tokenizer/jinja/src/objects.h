// Objects that exist only while a template is rendered.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "baton/tokenizer/jinja/value.h"

#include "ast.h"

namespace baton::tokenizer::jinja {

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

/// Variables of one scope. A scope ends with its loop iteration, block or macro call.
struct Frame {
  std::shared_ptr<Frame> parent;
  std::map<std::string, Value, std::less<>> variables;
};

class Macro : public Object {
 public:
  Macro(const Statement& statement, const std::shared_ptr<Frame>& defined_in)
      : statement_(statement), defined_in_(defined_in) {}

  std::string_view type_name() const override { return "macro"; }
  bool callable() const override { return true; }
  const Statement& statement() const { return statement_; }
  /// Weak: the frame holds the macro.
  std::shared_ptr<Frame> defined_in() const { return defined_in_.lock(); }

 private:
  const Statement& statement_;
  std::weak_ptr<Frame> defined_in_;
};

enum class FunctionName { raise_exception, strftime_now, make_namespace, range, dict };

class Function : public Object {
 public:
  explicit Function(FunctionName name) : name_(name) {}

  std::string_view type_name() const override { return "function"; }
  bool callable() const override { return true; }
  FunctionName name() const { return name_; }

 private:
  FunctionName name_;
};

/// `text.strip` before it is called.
class BoundMethod : public Object {
 public:
  BoundMethod(Value self, std::string name) : self_(std::move(self)), name_(std::move(name)) {}

  std::string_view type_name() const override { return "method"; }
  bool callable() const override { return true; }
  std::size_t depth() const override { return self_.depth() + 1; }
  const Value& self() const { return self_; }
  const std::string& name() const { return name_; }

 private:
  Value self_;
  std::string name_;
};

/// An object whose values can change, so that it can come to hold itself. The interpreter keeps
/// such objects and empties them at the end: nothing leaks and no chain of them is freed
/// recursively.
class MutableObject : public Object {
 public:
  virtual void release() = 0;
};

class Namespace : public MutableObject {
 public:
  std::string_view type_name() const override { return "namespace"; }
  void release() override { attributes.clear(); }

  std::map<std::string, Value, std::less<>> attributes;
};

class Loop : public MutableObject {
 public:
  /// `items` is a list.
  explicit Loop(Value items) : items_(std::move(items)) {}

  std::string_view type_name() const override { return "loop"; }
  std::size_t depth() const override { return items_.depth() + 1; }
  void release() override { last_changed.reset(); }
  const std::vector<Value>& items() const { return items_.as_items(); }

  std::size_t index = 0;
  std::optional<std::vector<Value>> last_changed;

 private:
  Value items_;
};

}  // namespace baton::tokenizer::jinja
