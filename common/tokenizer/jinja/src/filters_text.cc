// Filters that make text: case, trim, replace, indent, join, tojson.
#include <algorithm>
#include <array>

#include "filters.h"
#include "format.h"
#include "text_ops.h"

namespace baton::tokenizer::jinja {
namespace {

template <Text (*operation)(const Text&)>
Result<Value> map_filter(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  BATON_TRY(bind(interpreter, "this filter", arguments, {}));
  BATON_ASSIGN(const Text text, interpreter.to_text(input));
  BATON_TRY(interpreter.charge(text.size()));
  return interpreter.text_value(operation(text));
}

// The filter form of a method of strings.
template <typename Name>
Result<Value> as_method(Interpreter& interpreter, const Value& input, const Arguments& arguments,
                        Name name) {
  BATON_ASSIGN(Text text, interpreter.to_text(input));
  return call_method(interpreter, Value::text(std::move(text)), name, arguments);
}

Result<Value> trim(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  return as_method(interpreter, input, arguments, "strip");
}

Result<Value> replace_filter(Interpreter& interpreter, const Value& input,
                             const Arguments& arguments) {
  return as_method(interpreter, input, arguments, "replace");
}

Result<Value> string_filter(Interpreter& interpreter, const Value& input,
                            const Arguments& arguments) {
  BATON_TRY(bind(interpreter, "string", arguments, {}));
  BATON_ASSIGN(Text text, interpreter.to_text(input));
  return interpreter.text_value(std::move(text));
}

// The width of indent and of tojson: a count of spaces or the indentation itself.
Result<Text> indentation(Interpreter& interpreter, const Value& width) {
  if (width.is(Kind::text)) return width.as_text();
  if (!width.is(Kind::integer)) return interpreter.fail("an indentation is " + describe(width));
  const std::int64_t spaces = std::max<std::int64_t>(width.as_integer(), 0);
  if (spaces > 1000) return interpreter.fail("an indentation is too wide");
  return Text(std::string(static_cast<std::size_t>(spaces), ' '));
}

Result<Value> indent(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  BATON_ASSIGN(const auto bound,
               bind(interpreter, "indent", arguments, {"width", "first", "blank"}));
  BATON_ASSIGN(const Text unit, indentation(interpreter, bound[0].value_or(Value::integer(4))));
  const bool first = bound[1] && bound[1]->truthy();
  const bool blank = bound[2] && bound[2]->truthy();
  if (!input.is(Kind::text)) return interpreter.fail("'indent' of " + describe(input));
  Text text = input.as_text();
  text.append("\n");
  BATON_TRY(interpreter.charge(text.size() * 4));
  const std::vector<Text> lines = split_lines(text, false);
  const std::size_t most = interpreter.options().limits.max_output_bytes;
  if (unit.size() != 0 && lines.size() > most / unit.size()) {
    return interpreter.fail("the output limit is exceeded");
  }
  Text out;
  if (first) out.append(unit);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) out.append("\n");
    if (i > 0 && (blank || !lines[i].empty())) out.append(unit);
    out.append(lines[i]);
  }
  return interpreter.text_value(std::move(out));
}

Result<Value> join(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  BATON_ASSIGN(const auto bound, bind(interpreter, "join", arguments, {"d", "attribute"}));
  BATON_ASSIGN(const Text separator, interpreter.to_text(bound[0].value_or(Value())));
  BATON_ASSIGN(const std::vector<Value> items, interpreter.iterate(input));
  Text out;
  for (std::size_t i = 0; i < items.size(); ++i) {
    Value item = items[i];
    if (bound[1]) {
      BATON_ASSIGN(item, attribute_path(interpreter, item, *bound[1]));
    }
    BATON_ASSIGN(const Text part, interpreter.to_text(item));
    BATON_TRY(interpreter.charge(part.size() + separator.size()));
    if (i > 0) out.append(separator);
    out.append(part);
    if (out.size() > interpreter.options().limits.max_output_bytes) {
      return interpreter.fail("the output limit is exceeded");
    }
  }
  return interpreter.text_value(std::move(out));
}

Result<Value> tojson(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  BATON_ASSIGN(const auto bound, bind(interpreter, "tojson", arguments,
                                      {"ensure_ascii", "indent", "separators", "sort_keys"}));
  JsonStyle style;
  style.ensure_ascii = bound[0] && bound[0]->truthy();
  if (bound[1] && !bound[1]->is(Kind::none)) {
    BATON_ASSIGN(style.indent, indentation(interpreter, *bound[1]));
  }
  style.item_separator = Text(style.indent ? "," : ", ");
  style.key_separator = Text(": ");
  if (bound[2] && bound[2]->is_sequence() && bound[2]->as_items().size() == 2) {
    BATON_ASSIGN(style.item_separator, interpreter.to_text(bound[2]->as_items()[0]));
    BATON_ASSIGN(style.key_separator, interpreter.to_text(bound[2]->as_items()[1]));
  }
  style.sort_keys = bound[3] && bound[3]->truthy();
  Text out;
  BATON_TRY(write_json(interpreter, input, style, 0, out));
  return interpreter.text_value(std::move(out));
}

constexpr std::array table = {
    NamedFilter{"upper", map_filter<upper>},
    NamedFilter{"lower", map_filter<lower>},
    NamedFilter{"capitalize", map_filter<capitalize>},
    NamedFilter{"title", map_filter<title_words>},
    NamedFilter{"trim", trim},
    NamedFilter{"replace", replace_filter},
    NamedFilter{"string", string_filter},
    NamedFilter{"safe", string_filter},
    NamedFilter{"indent", indent},
    NamedFilter{"join", join},
    NamedFilter{"tojson", tojson},
};

}  // namespace

std::span<const NamedFilter> text_filters() { return table; }

}  // namespace baton::tokenizer::jinja
