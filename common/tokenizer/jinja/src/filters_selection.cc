// map, select, reject and their forms by attribute, and the dispatch of all filters. Where Jinja2
// gives a generator these give a list.
#include <array>
#include <charconv>

#include "filters.h"

namespace baton::tokenizer::jinja {
namespace {

Arguments without_first(const Arguments& arguments, std::size_t count) {
  Arguments rest;
  rest.positional.assign(arguments.positional.begin() + static_cast<std::ptrdiff_t>(count),
                         arguments.positional.end());
  rest.named = arguments.named;
  return rest;
}

// Whatever is false counts as empty here, as in Jinja2.
Result<std::vector<Value>> items_of(Interpreter& interpreter, const Value& input) {
  if (!input.truthy()) return std::vector<Value>();
  return interpreter.iterate(input);
}

Result<std::string> name_argument(Interpreter& interpreter, const Value& value) {
  if (!value.is(Kind::text)) return interpreter.fail("a name is " + describe(value));
  return value.as_text().bytes();
}

Result<Value> map_attribute(Interpreter& interpreter, const std::vector<Value>& items,
                            const Arguments& arguments) {
  BATON_ASSIGN(const auto bound, bind(interpreter, "map", arguments, {"attribute", "default"}));
  std::vector<Value> out;
  out.reserve(items.size());
  for (const Value& item : items) {
    BATON_ASSIGN(Value value, attribute_path(interpreter, item, *bound[0]));
    if (value.is(Kind::undefined) && bound[1]) value = *bound[1];
    out.push_back(std::move(value));
  }
  return interpreter.list_value(std::move(out));
}

Result<Value> map_filter(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  BATON_ASSIGN(const std::vector<Value> items, items_of(interpreter, input));
  if (arguments.positional.empty()) {
    if (arguments.named.empty() || arguments.named[0].first != "attribute") {
      return interpreter.fail("'map' needs a filter or an attribute");
    }
    return map_attribute(interpreter, items, arguments);
  }
  BATON_ASSIGN(const std::string name, name_argument(interpreter, arguments.positional[0]));
  const Arguments rest = without_first(arguments, 1);
  std::vector<Value> out;
  out.reserve(items.size());
  for (const Value& item : items) {
    BATON_ASSIGN(Value value, interpreter.apply_filter(name, item, rest));
    out.push_back(std::move(value));
  }
  return interpreter.list_value(std::move(out));
}

template <bool by_attribute, bool wanted>
Result<Value> select(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  constexpr std::size_t test_at = by_attribute ? 1 : 0;
  if (by_attribute && arguments.positional.empty()) {
    return interpreter.fail("an attribute's name is missing");
  }
  const bool has_test = arguments.positional.size() > test_at;
  std::string test;
  Arguments rest;
  if (has_test) {
    BATON_ASSIGN(test, name_argument(interpreter, arguments.positional[test_at]));
    rest = without_first(arguments, test_at + 1);
  }
  BATON_ASSIGN(const std::vector<Value> items, items_of(interpreter, input));
  std::vector<Value> out;
  for (const Value& item : items) {
    Value subject = item;
    if (by_attribute) {
      BATON_ASSIGN(subject, attribute_path(interpreter, item, arguments.positional[0]));
    }
    if (has_test) {
      BATON_ASSIGN(subject, interpreter.apply_test(test, subject, rest));
    }
    if (subject.truthy() == wanted) out.push_back(item);
  }
  return interpreter.list_value(std::move(out));
}

constexpr std::array table = {
    NamedFilter{"map", map_filter},
    NamedFilter{"select", select<false, true>},
    NamedFilter{"reject", select<false, false>},
    NamedFilter{"selectattr", select<true, true>},
    NamedFilter{"rejectattr", select<true, false>},
};

}  // namespace

std::span<const NamedFilter> selection_filters() { return table; }

Result<Value> attribute_path(Interpreter& interpreter, const Value& item, const Value& path) {
  if (!path.is(Kind::text)) return interpreter.item(item, path);
  Value value = item;
  std::string_view rest = path.as_text().view();
  while (true) {
    const std::size_t dot = rest.find('.');
    const std::string_view part = rest.substr(0, dot);
    std::int64_t index = 0;
    const char* end = part.data() + part.size();
    const auto parsed = std::from_chars(part.data(), end, index);
    const bool is_index = parsed.ec == std::errc() && parsed.ptr == end && part[0] != '-';
    const Value key = is_index ? Value::integer(index) : Value::text(Text(std::string(part)));
    BATON_ASSIGN(value, interpreter.item(value, key));
    if (dot == std::string_view::npos) return value;
    rest.remove_prefix(dot + 1);
  }
}

Result<Value> Interpreter::apply_filter(const std::string& name, const Value& input,
                                        const Arguments& arguments) {
  BATON_TRY(check_depth());
  const DepthScope scope(depth_);
  BATON_TRY(charge());
  for (const auto& table :
       {text_filters(), value_filters(), sequence_filters(), selection_filters()}) {
    for (const NamedFilter& filter : table) {
      if (filter.name == name) return filter.apply(*this, input, arguments);
    }
  }
  return fail("the filter '" + name + "' is not supported");
}

}  // namespace baton::tokenizer::jinja
