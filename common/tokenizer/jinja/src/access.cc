#include <algorithm>

#include "interpreter.h"
#include "unicode.h"

namespace baton::tokenizer::jinja {
namespace {

Value missing(const Value& object, const Value& key) {
  // A key that users wrote is not repeated (R24).
  if (key.is(Kind::text) && !key.as_text().has_user_data()) {
    return Value::undefined("'" + key.as_text().bytes() + "' of " + describe(object));
  }
  return Value::undefined("an element of " + describe(object));
}

Value loop_attribute(const Loop& loop, const std::string& name) {
  const auto count = static_cast<std::int64_t>(loop.items().size());
  const auto index = static_cast<std::int64_t>(loop.index);
  if (name == "index") return Value::integer(index + 1);
  if (name == "index0") return Value::integer(index);
  if (name == "revindex") return Value::integer(count - index);
  if (name == "revindex0") return Value::integer(count - index - 1);
  if (name == "first") return Value::boolean(index == 0);
  if (name == "last") return Value::boolean(index + 1 == count);
  if (name == "length") return Value::integer(count);
  // It counts recursive loops only, which there are none of.
  if (name == "depth" || name == "depth0") return Value::integer(name == "depth" ? 1 : 0);
  if (name == "previtem" && index > 0) return loop.items()[loop.index - 1];
  if (name == "nextitem" && index + 1 < count) return loop.items()[loop.index + 1];
  return Value::undefined("'" + name + "' of the loop");
}

Result<Value> element(Interpreter& interpreter, const Value& object, std::int64_t index) {
  if (object.is_sequence()) {
    const auto count = static_cast<std::int64_t>(object.as_items().size());
    if (index < 0) index += count;
    if (index < 0 || index >= count) return missing(object, Value::integer(index));
    return object.as_items()[static_cast<std::size_t>(index)];
  }
  const Text& text = object.as_text();
  BATON_TRY(interpreter.charge(text.size()));
  if (index < 0) index += static_cast<std::int64_t>(count_characters(text.view()));
  if (index < 0) return missing(object, Value::integer(index));
  const std::size_t at = offset_of_character(text.view(), static_cast<std::size_t>(index));
  if (at >= text.size()) return missing(object, Value::integer(index));
  return Value::text(text.slice(at, at + character_at(text.view(), at).size_bytes));
}

// Python's slice.indices(): which positions of `count` are taken.
struct Positions {
  std::int64_t start;
  std::int64_t stop;
  std::int64_t step;
};

Positions resolve(const SliceBounds& bounds, std::int64_t count) {
  const std::int64_t step = bounds.step.value_or(1);
  const std::int64_t lowest = step > 0 ? 0 : -1;
  const std::int64_t highest = step > 0 ? count : count - 1;
  const auto place = [&](std::optional<std::int64_t> bound, std::int64_t absent) {
    if (!bound) return absent;
    const std::int64_t from_end = *bound < 0 ? std::max(*bound, -count - 1) + count : *bound;
    return std::clamp(from_end, lowest, highest);
  };
  return {place(bounds.start, step > 0 ? lowest : highest),
          place(bounds.stop, step > 0 ? highest : lowest), step};
}

bool in_range(std::int64_t at, const Positions& positions) {
  return positions.step > 0 ? at < positions.stop : at > positions.stop;
}

}  // namespace

bool is_hashable(const Value& value) {
  if (value.is(Kind::list) || value.is(Kind::dict)) return false;
  if (!value.is(Kind::tuple)) return true;
  return std::all_of(value.as_items().begin(), value.as_items().end(), is_hashable);
}

std::string describe(const Value& value) {
  switch (value.kind()) {
    case Kind::undefined:
      return "an undefined value";
    case Kind::none:
      return "none";
    case Kind::boolean:
      return "a boolean";
    case Kind::integer:
      return "an integer";
    case Kind::floating:
      return "a float";
    case Kind::text:
      return "a string";
    case Kind::list:
      return "a list";
    case Kind::tuple:
      return "a tuple";
    case Kind::dict:
      return "a dict";
    case Kind::object:
      return "a " + std::string(value.as_object()->type_name());
  }
  return "a value";
}

Result<Value> Interpreter::attribute(const Value& object, const std::string& name) {
  if (object.is(Kind::undefined)) return fail(object.undefined_hint() + " is undefined");
  // As in Jinja2, `.name` finds a method before a key of a dict; ["name"] finds the key first.
  if (has_method(object, name)) {
    return Value::object(std::make_shared<BoundMethod>(object, name));
  }
  if (object.is(Kind::object)) {
    if (const auto* space = dynamic_cast<const Namespace*>(object.as_object().get())) {
      const auto found = space->attributes.find(name);
      if (found != space->attributes.end()) return found->second;
    } else if (const auto* loop = dynamic_cast<const Loop*>(object.as_object().get())) {
      return loop_attribute(*loop, name);
    }
  }
  if (object.is(Kind::dict)) {
    if (const Value* found = object.as_dict().find(name)) return *found;
  }
  return missing(object, Value::trusted(name));
}

Result<Value> Interpreter::item(const Value& object, const Value& key) {
  if (object.is(Kind::undefined)) return fail(object.undefined_hint() + " is undefined");
  const bool indexable = object.is_sequence() || object.is(Kind::text);
  if (indexable && key.is(Kind::integer)) return element(*this, object, key.as_integer());
  if (indexable && key.is(Kind::boolean)) return element(*this, object, key.as_boolean() ? 1 : 0);
  if (object.is(Kind::dict)) {
    BATON_TRY(charge(key.is(Kind::text) ? 0 : object.as_dict().size()));
    if (const Value* found = object.as_dict().find(key)) return *found;
  }
  if (key.is(Kind::text) && !key.as_text().has_user_data()) {
    return attribute(object, key.as_text().bytes());
  }
  return missing(object, key);
}

Result<Value> slice(Interpreter& interpreter, const Value& object, const SliceBounds& bounds) {
  if (bounds.step == 0) return interpreter.fail("a slice with step 0");
  if (object.is(Kind::undefined)) {
    return interpreter.fail(object.undefined_hint() + " is undefined");
  }
  if (object.is_sequence()) {
    const auto count = static_cast<std::int64_t>(object.as_items().size());
    const Positions positions = resolve(bounds, count);
    std::vector<Value> items;
    for (std::int64_t at = positions.start; in_range(at, positions);) {
      items.push_back(object.as_items()[static_cast<std::size_t>(at)]);
      if (__builtin_add_overflow(at, positions.step, &at)) break;
    }
    return interpreter.list_value(std::move(items), object.is(Kind::tuple));
  }
  if (!object.is(Kind::text)) return interpreter.fail(describe(object) + " cannot be sliced");
  const Text& text = object.as_text();
  BATON_TRY(interpreter.charge(text.size()));
  const auto count = static_cast<std::int64_t>(count_characters(text.view()));
  const Positions positions = resolve(bounds, count);
  if (positions.step == 1) {
    if (positions.start >= positions.stop) return Value::text(Text());
    const std::size_t begin =
        offset_of_character(text.view(), static_cast<std::size_t>(positions.start));
    const std::size_t length = offset_of_character(
        text.view().substr(begin), static_cast<std::size_t>(positions.stop - positions.start));
    return Value::text(text.slice(begin, begin + length));
  }
  std::vector<std::size_t> starts;
  for (std::size_t at = 0; at < text.size(); at += character_at(text.view(), at).size_bytes) {
    starts.push_back(at);
  }
  starts.push_back(text.size());
  Text out;
  for (std::int64_t at = positions.start; in_range(at, positions);) {
    const auto index = static_cast<std::size_t>(at);
    out.append(text, starts[index], starts[index + 1]);
    if (__builtin_add_overflow(at, positions.step, &at)) break;
  }
  return interpreter.text_value(std::move(out));
}

Result<std::vector<Value>> Interpreter::iterate(const Value& value) {
  switch (value.kind()) {
    case Kind::undefined:
      return std::vector<Value>();
    case Kind::list:
    case Kind::tuple:
      BATON_TRY(charge(value.as_items().size() * sizeof(Value)));
      return value.as_items();
    case Kind::dict: {
      BATON_TRY(charge(value.as_dict().size() * sizeof(Value)));
      std::vector<Value> keys;
      for (const auto& entry : value.as_dict().entries()) keys.push_back(entry.first);
      return keys;
    }
    case Kind::text: {
      const Text& text = value.as_text();
      std::vector<Value> characters;
      for (std::size_t at = 0; at < text.size();) {
        BATON_TRY(charge(sizeof(Text)));
        const std::size_t next = at + character_at(text.view(), at).size_bytes;
        characters.push_back(Value::text(text.slice(at, next)));
        at = next;
      }
      return characters;
    }
    default:
      return fail(describe(value) + " cannot be iterated over");
  }
}

Result<std::vector<std::optional<Value>>> bind(Interpreter& interpreter, std::string_view function,
                                               const Arguments& arguments,
                                               std::initializer_list<std::string_view> names) {
  if (arguments.positional.size() > names.size()) {
    return interpreter.fail("'" + std::string(function) + "' takes at most " +
                            std::to_string(names.size()) + " arguments");
  }
  std::vector<std::optional<Value>> out(names.size());
  for (std::size_t i = 0; i < arguments.positional.size(); ++i) out[i] = arguments.positional[i];
  for (const auto& [name, value] : arguments.named) {
    const auto found = std::find(names.begin(), names.end(), name);
    const auto index = static_cast<std::size_t>(found - names.begin());
    if (found == names.end() || out[index]) {
      return interpreter.fail("'" + std::string(function) + "' takes no argument '" + name + "'");
    }
    out[index] = value;
  }
  return out;
}

}  // namespace baton::tokenizer::jinja
