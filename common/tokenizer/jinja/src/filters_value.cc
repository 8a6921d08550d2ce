// Filters on single values: default, numbers, length.
#include <array>
#include <charconv>
#include <cmath>
#include <string>

#include "filters.h"
#include "text_ops.h"
#include "unicode.h"

namespace baton::tokenizer::jinja {
namespace {

Result<Value> default_filter(Interpreter& interpreter, const Value& input,
                             const Arguments& arguments) {
  BATON_ASSIGN(const auto bound,
               bind(interpreter, "default", arguments, {"default_value", "boolean"}));
  const bool also_false = bound[1] && bound[1]->truthy();
  if (!input.is(Kind::undefined) && !(also_false && !input.truthy())) return input;
  return bound[0].value_or(Value::text(Text()));
}

Result<Value> length(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  BATON_TRY(bind(interpreter, "length", arguments, {}));
  switch (input.kind()) {
    case Kind::undefined:
      return Value::integer(0);
    case Kind::text:
      BATON_TRY(interpreter.charge(input.as_text().size()));
      return Value::integer(static_cast<std::int64_t>(count_characters(input.as_text().view())));
    case Kind::list:
    case Kind::tuple:
      return Value::integer(static_cast<std::int64_t>(input.as_items().size()));
    case Kind::dict:
      return Value::integer(static_cast<std::int64_t>(input.as_dict().size()));
    default:
      return interpreter.fail(describe(input) + " has no length");
  }
}

// A text as Python's int() and float() read it: spaces around, underscores between digits.
std::string number_text(const Text& text) {
  const Text stripped = strip(text, nullptr, true, true);
  std::string out;
  for (const char c : stripped.bytes()) {
    if (c != '_') out += c;
  }
  if (!out.empty() && out[0] == '+') out.erase(0, 1);
  return out;
}

std::optional<std::int64_t> read_integer(const Text& text, int base) {
  const std::string digits = number_text(text);
  std::int64_t value = 0;
  const char* end = digits.data() + digits.size();
  const auto parsed = std::from_chars(digits.data(), end, value, base);
  if (parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
  return value;
}

std::optional<double> read_float(const Text& text) {
  const std::string digits = number_text(text);
  double value = 0;
  const char* end = digits.data() + digits.size();
  const auto parsed = std::from_chars(digits.data(), end, value);
  if (parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
  return value;
}

std::optional<std::int64_t> truncate(double value) {
  // 2^63 is the first double outside; NaN fails both comparisons.
  if (!(value > -9.3e18 && value < 9.2e18)) return std::nullopt;
  return static_cast<std::int64_t>(value);
}

Result<Value> int_filter(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  BATON_ASSIGN(const auto bound, bind(interpreter, "int", arguments, {"default", "base"}));
  const Value fallback = bound[0].value_or(Value::integer(0));
  std::int64_t base = 10;
  if (bound[1] && bound[1]->is(Kind::integer)) base = bound[1]->as_integer();
  if (base < 2 || base > 36) return interpreter.fail("a base outside 2 to 36");
  std::optional<std::int64_t> value;
  switch (input.kind()) {
    case Kind::undefined:
      return interpreter.fail(input.undefined_hint() + " is undefined");
    case Kind::boolean:
      return Value::integer(input.as_boolean() ? 1 : 0);
    case Kind::integer:
      return input;
    case Kind::floating:
      value = truncate(input.as_floating());
      break;
    case Kind::text:
      value = read_integer(input.as_text(), static_cast<int>(base));
      if (!value) {
        if (const auto number = read_float(input.as_text())) value = truncate(*number);
      }
      break;
    default:
      break;
  }
  return value ? Value::integer(*value) : fallback;
}

Result<Value> float_filter(Interpreter& interpreter, const Value& input,
                           const Arguments& arguments) {
  BATON_ASSIGN(const auto bound, bind(interpreter, "float", arguments, {"default"}));
  switch (input.kind()) {
    case Kind::undefined:
      return interpreter.fail(input.undefined_hint() + " is undefined");
    case Kind::boolean:
      return Value::floating(input.as_boolean() ? 1.0 : 0.0);
    case Kind::integer:
      return Value::floating(static_cast<double>(input.as_integer()));
    case Kind::floating:
      return input;
    case Kind::text:
      if (const auto number = read_float(input.as_text())) return Value::floating(*number);
      break;
    default:
      break;
  }
  return bound[0].value_or(Value::floating(0.0));
}

Result<Value> abs_filter(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  BATON_TRY(bind(interpreter, "abs", arguments, {}));
  if (input.is(Kind::floating)) return Value::floating(std::fabs(input.as_floating()));
  if (input.is(Kind::boolean)) return Value::integer(input.as_boolean() ? 1 : 0);
  if (!input.is(Kind::integer)) return interpreter.fail("'abs' of " + describe(input));
  return input.as_integer() < 0 ? negative(interpreter, input) : Result<Value>(input);
}

// Half to even, as Python's round(); integers stay integers unless a method is named.
Result<Value> round_filter(Interpreter& interpreter, const Value& input,
                           const Arguments& arguments) {
  BATON_ASSIGN(const auto bound, bind(interpreter, "round", arguments, {"precision", "method"}));
  if (!input.is_number()) return interpreter.fail("'round' of " + describe(input));
  const bool integral = !input.is(Kind::floating);
  BATON_ASSIGN(const Value as_float, float_filter(interpreter, input, {}));
  const double number = as_float.as_floating();
  std::int64_t precision = 0;
  if (bound[0] && bound[0]->is(Kind::integer)) precision = bound[0]->as_integer();
  if (precision < 0 || precision > 15) return interpreter.fail("a precision outside 0 to 15");
  const double scale = std::pow(10.0, static_cast<double>(precision));
  const std::string_view method =
      bound[1] && bound[1]->is(Kind::text) ? bound[1]->as_text().view() : "common";
  if (method == "ceil") return Value::floating(std::ceil(number * scale) / scale);
  if (method == "floor") return Value::floating(std::floor(number * scale) / scale);
  if (method != "common") return interpreter.fail("an unknown rounding method");
  if (integral) return input.is(Kind::integer) ? input : int_filter(interpreter, input, {});
  return Value::floating(std::nearbyint(number * scale) / scale);
}

constexpr std::array table = {
    NamedFilter{"default", default_filter}, NamedFilter{"d", default_filter},
    NamedFilter{"length", length},          NamedFilter{"count", length},
    NamedFilter{"int", int_filter},         NamedFilter{"float", float_filter},
    NamedFilter{"abs", abs_filter},         NamedFilter{"round", round_filter},
};

}  // namespace

std::span<const NamedFilter> value_filters() { return table; }

}  // namespace baton::tokenizer::jinja
