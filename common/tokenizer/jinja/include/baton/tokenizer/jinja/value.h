// Values of the template language: JSON's kinds, tuples, undefined, and the interpreter's own
// objects (macros, loops, namespaces), which exist only while a template is rendered. Values are
// immutable and cheap to copy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "baton/tokenizer/jinja/text.h"

namespace baton::tokenizer::jinja {

class Dict;
class List;
class Object;

enum class Kind : std::uint8_t {
  undefined,
  none,
  boolean,
  integer,
  floating,
  text,
  list,
  tuple,
  dict,
  object,
};

class Value {
 public:
  /// Undefined, as a variable that was never set; `hint` says in an error what was not found.
  Value() = default;
  static Value undefined(std::string hint);
  static Value none();
  static Value boolean(bool value);
  static Value integer(std::int64_t value);
  static Value floating(double value);
  static Value text(Text value);
  /// Trusted text: the template's own or a value that the server chose.
  static Value trusted(std::string value) { return text(Text(std::move(value))); }
  /// Text that a user wrote.
  static Value user(std::string value) { return text(Text(std::move(value), Origin::user)); }
  static Value list(std::vector<Value> items);
  static Value tuple(std::vector<Value> items);
  /// In the order given. Of equal keys the first keeps its place and the last gives the value.
  static Value dict(std::vector<std::pair<Value, Value>> entries);
  static Value object(std::shared_ptr<Object> object);

  Kind kind() const;
  bool is(Kind wanted) const { return kind() == wanted; }
  bool is_number() const;  ///< integer, floating or boolean, as in Python
  bool is_sequence() const { return is(Kind::list) || is(Kind::tuple); }

  // Each requires the kind it is named after.
  const std::string& undefined_hint() const;
  bool as_boolean() const;
  std::int64_t as_integer() const;
  double as_floating() const;
  const Text& as_text() const;
  const std::vector<Value>& as_items() const;  ///< list or tuple
  const Dict& as_dict() const;
  const std::shared_ptr<Object>& as_object() const;

  bool truthy() const;
  /// Nesting: 0 for scalars, 1 + the deepest element for lists, tuples and dicts.
  std::size_t depth() const;
  /// Python's ==; an object equals itself only.
  friend bool operator==(const Value& a, const Value& b);

 private:
  struct Undefined {
    std::shared_ptr<const std::string> hint;
  };
  struct None {};

  std::variant<Undefined, None, bool, std::int64_t, double, std::shared_ptr<const Text>,
               std::shared_ptr<const List>, std::shared_ptr<const Dict>, std::shared_ptr<Object>>
      data_;
};

/// Items of a list or tuple.
class List {
 public:
  List(std::vector<Value> items, bool is_tuple);

  const std::vector<Value>& items() const { return items_; }
  bool is_tuple() const { return is_tuple_; }
  std::size_t depth() const { return depth_; }

 private:
  std::vector<Value> items_;
  bool is_tuple_;
  std::size_t depth_;
};

/// Keys keep their order. Look-up costs O(log n) for text keys, O(n) for others.
class Dict {
 public:
  explicit Dict(std::vector<std::pair<Value, Value>> entries);

  const std::vector<std::pair<Value, Value>>& entries() const { return entries_; }
  std::size_t size() const { return entries_.size(); }
  std::size_t depth() const { return depth_; }
  /// nullptr when there is none.
  const Value* find(std::string_view key) const;
  const Value* find(const Value& key) const;

 private:
  void index_text_keys();
  bool has_repeated_keys() const;

  std::vector<std::pair<Value, Value>> entries_;
  std::vector<std::uint32_t> text_keys_;  // entries with text keys, ascending by key
  std::size_t depth_ = 1;
};

/// What only the interpreter makes: macros, functions, loops, namespaces.
class Object {
 public:
  Object() = default;
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  virtual ~Object() = default;

  /// For errors and `is callable`.
  virtual std::string_view type_name() const = 0;
  virtual bool callable() const { return false; }
  /// Nesting of the values that it holds on to (see Value::depth).
  virtual std::size_t depth() const { return 0; }
};

}  // namespace baton::tokenizer::jinja
