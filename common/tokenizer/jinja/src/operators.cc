#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "interpreter.h"
#include "unicode.h"

namespace baton::tokenizer::jinja {
namespace {

double to_double(const Value& value) {
  if (value.is(Kind::floating)) return value.as_floating();
  if (value.is(Kind::boolean)) return value.as_boolean() ? 1.0 : 0.0;
  return static_cast<double>(value.as_integer());
}

std::int64_t to_integer(const Value& value) {
  return value.is(Kind::boolean) ? (value.as_boolean() ? 1 : 0) : value.as_integer();
}

std::string_view symbol(Operator op) {
  constexpr std::string_view symbols[] = {
      "+", "-", "*", "/", "//", "%", "**", "==", "!=", "<", "<=", ">", ">=", "in", "not in"};
  return symbols[static_cast<std::size_t>(op)];
}

Error mismatch(Interpreter& interpreter, Operator op, const Value& a, const Value& b) {
  for (const Value* value : {&a, &b}) {
    if (value->is(Kind::undefined)) {
      return interpreter.fail(value->undefined_hint() + " is undefined");
    }
  }
  return interpreter.fail("'" + std::string(symbol(op)) + "' does not work between " + describe(a) +
                          " and " + describe(b));
}

// Python rounds towards minus infinity.
std::int64_t floor_divide(std::int64_t a, std::int64_t b) {
  const std::int64_t quotient = a / b;
  return (a % b != 0 && (a < 0) != (b < 0)) ? quotient - 1 : quotient;
}

double float_modulo(double a, double b) {
  const double rest = std::fmod(a, b);
  return (rest != 0 && (rest < 0) != (b < 0)) ? rest + b : rest;
}

Result<Value> integer_power(Interpreter& interpreter, std::int64_t base, std::int64_t exponent) {
  if (exponent < 0) {
    if (base == 0) return interpreter.fail("division by zero");
    return Value::floating(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  std::int64_t out = 1;
  if (base == 0 || base == 1) return Value::integer(exponent == 0 ? 1 : base);
  if (base == -1) return Value::integer(exponent % 2 == 0 ? 1 : -1);
  for (; exponent > 0; --exponent) {
    if (__builtin_mul_overflow(out, base, &out)) return interpreter.fail("an integer overflows");
  }
  return Value::integer(out);
}

Result<Value> integers(Interpreter& interpreter, Operator op, std::int64_t a, std::int64_t b) {
  constexpr std::int64_t lowest = std::numeric_limits<std::int64_t>::min();
  std::int64_t out = 0;
  bool overflow = false;
  if (b == 0 &&
      (op == Operator::divide || op == Operator::floor_divide || op == Operator::modulo)) {
    return interpreter.fail("division by zero");
  }
  switch (op) {
    case Operator::add:
      overflow = __builtin_add_overflow(a, b, &out);
      break;
    case Operator::subtract:
      overflow = __builtin_sub_overflow(a, b, &out);
      break;
    case Operator::multiply:
      overflow = __builtin_mul_overflow(a, b, &out);
      break;
    case Operator::divide:
      return Value::floating(static_cast<double>(a) / static_cast<double>(b));
    case Operator::floor_divide:
      overflow = a == lowest && b == -1;
      if (!overflow) out = floor_divide(a, b);
      break;
    case Operator::modulo:
      out = b == -1 ? 0 : a - floor_divide(a, b) * b;
      break;
    default:
      return integer_power(interpreter, a, b);
  }
  if (overflow) return interpreter.fail("an integer overflows");
  return Value::integer(out);
}

Result<Value> floats(Interpreter& interpreter, Operator op, double a, double b) {
  if (b == 0 &&
      (op == Operator::divide || op == Operator::floor_divide || op == Operator::modulo)) {
    return interpreter.fail("division by zero");
  }
  switch (op) {
    case Operator::add:
      return Value::floating(a + b);
    case Operator::subtract:
      return Value::floating(a - b);
    case Operator::multiply:
      return Value::floating(a * b);
    case Operator::divide:
      return Value::floating(a / b);
    case Operator::floor_divide:
      return Value::floating(std::floor(a / b));
    case Operator::modulo:
      return Value::floating(float_modulo(a, b));
    default:
      return Value::floating(std::pow(a, b));
  }
}

Result<Value> repeat(Interpreter& interpreter, const Value& value, std::int64_t times) {
  const auto count = static_cast<std::size_t>(std::max<std::int64_t>(times, 0));
  const std::size_t size = value.is(Kind::text) ? value.as_text().size() : value.as_items().size();
  const std::size_t limit = interpreter.options().limits.max_output_bytes;
  const std::size_t unit = value.is(Kind::text) ? 1 : sizeof(Value);
  if (size != 0 && count > limit / unit / size) {
    return interpreter.fail("the output limit is exceeded");
  }
  if (size == 0) return value;
  BATON_TRY(interpreter.charge(size * count * unit));
  if (value.is(Kind::text)) {
    Text out;
    for (std::size_t i = 0; i < count; ++i) out.append(value.as_text());
    return Value::text(std::move(out));
  }
  std::vector<Value> items;
  items.reserve(size * count);
  for (std::size_t i = 0; i < count; ++i) {
    items.insert(items.end(), value.as_items().begin(), value.as_items().end());
  }
  return interpreter.list_value(std::move(items), value.is(Kind::tuple));
}

Result<Value> join_sequences(Interpreter& interpreter, const Value& a, const Value& b) {
  std::vector<Value> items = a.as_items();
  items.insert(items.end(), b.as_items().begin(), b.as_items().end());
  return interpreter.list_value(std::move(items), a.is(Kind::tuple));
}

bool is_integral(const Value& value) { return value.is(Kind::integer) || value.is(Kind::boolean); }

}  // namespace

Result<Value> arithmetic(Interpreter& interpreter, Operator op, const Value& a, const Value& b) {
  if (is_integral(a) && is_integral(b)) {
    return integers(interpreter, op, to_integer(a), to_integer(b));
  }
  if (a.is_number() && b.is_number()) {
    return floats(interpreter, op, to_double(a), to_double(b));
  }
  if (op == Operator::add && a.is(Kind::text) && b.is(Kind::text)) {
    Text out = a.as_text();
    out.append(b.as_text());
    return interpreter.text_value(std::move(out));
  }
  if (op == Operator::add && a.is_sequence() && a.kind() == b.kind()) {
    return join_sequences(interpreter, a, b);
  }
  const auto repeatable = [](const Value& v) { return v.is(Kind::text) || v.is_sequence(); };
  if (op == Operator::multiply && repeatable(a) && is_integral(b)) {
    return repeat(interpreter, a, to_integer(b));
  }
  if (op == Operator::multiply && is_integral(a) && repeatable(b)) {
    return repeat(interpreter, b, to_integer(a));
  }
  return mismatch(interpreter, op, a, b);
}

Result<Value> negative(Interpreter& interpreter, const Value& value) {
  if (value.is(Kind::floating)) return Value::floating(-value.as_floating());
  return integers(interpreter, Operator::subtract, 0, to_integer(value));
}

Result<int> order(Interpreter& interpreter, const Value& a, const Value& b) {
  const auto sign = [](const auto& x, const auto& y) { return x < y ? -1 : (y < x ? 1 : 0); };
  if (is_integral(a) && is_integral(b)) return sign(to_integer(a), to_integer(b));
  if (a.is_number() && b.is_number()) return sign(to_double(a), to_double(b));
  if (a.is(Kind::text) && b.is(Kind::text)) {
    BATON_TRY(interpreter.charge(std::min(a.as_text().size(), b.as_text().size())));
    return sign(a.as_text().view(), b.as_text().view());
  }
  if (!a.is_sequence() || a.kind() != b.kind()) {
    return mismatch(interpreter, Operator::less, a, b);
  }
  const std::size_t shared = std::min(a.as_items().size(), b.as_items().size());
  for (std::size_t i = 0; i < shared; ++i) {
    if (a.as_items()[i] == b.as_items()[i]) continue;
    return order(interpreter, a.as_items()[i], b.as_items()[i]);
  }
  return sign(a.as_items().size(), b.as_items().size());
}

Result<bool> contains(Interpreter& interpreter, const Value& container, const Value& needle) {
  switch (container.kind()) {
    case Kind::undefined:
      return false;
    case Kind::text:
      if (!needle.is(Kind::text)) return mismatch(interpreter, Operator::in, needle, container);
      BATON_TRY(interpreter.charge(container.as_text().size()));
      return needle.as_text().empty() ||
             find_bytes(container.as_text().view(), needle.as_text().view(), 0) !=
                 std::string_view::npos;
    case Kind::list:
    case Kind::tuple:
      BATON_TRY(interpreter.charge_value(container));
      return std::find(container.as_items().begin(), container.as_items().end(), needle) !=
             container.as_items().end();
    case Kind::dict:
      if (!is_hashable(needle)) return mismatch(interpreter, Operator::in, needle, container);
      BATON_TRY(interpreter.charge(container.as_dict().size()));
      return container.as_dict().find(needle) != nullptr;
    default:
      return mismatch(interpreter, Operator::in, needle, container);
  }
}

Result<bool> compare(Interpreter& interpreter, Operator op, const Value& a, const Value& b) {
  if (op == Operator::equal || op == Operator::not_equal) {
    BATON_TRY(interpreter.charge_value(a));
    return (a == b) == (op == Operator::equal);
  }
  if (op == Operator::in || op == Operator::not_in) {
    BATON_ASSIGN(const bool found, contains(interpreter, b, a));
    return found == (op == Operator::in);
  }
  const bool nan = (a.is(Kind::floating) && std::isnan(a.as_floating())) ||
                   (b.is(Kind::floating) && std::isnan(b.as_floating()));
  BATON_ASSIGN(const int sign, order(interpreter, a, b));
  if (nan) return false;
  if (op == Operator::less) return sign < 0;
  if (op == Operator::less_equal) return sign <= 0;
  if (op == Operator::greater) return sign > 0;
  return sign >= 0;
}

}  // namespace baton::tokenizer::jinja
