// Tests: what stands behind `is`.
#include <algorithm>
#include <array>

#include "interpreter.h"
#include "text_ops.h"

namespace baton::tokenizer::jinja {
namespace {

using Test = Result<bool> (*)(Interpreter&, const Value& subject, const Value& argument);
struct NamedTest {
  std::string_view name;
  std::size_t arguments;
  Test holds;
};

template <Kind kind>
Result<bool> is_kind(Interpreter&, const Value& subject, const Value&) {
  return subject.is(kind);
}

template <Operator op>
Result<bool> compares(Interpreter& interpreter, const Value& subject, const Value& argument) {
  return compare(interpreter, op, subject, argument);
}

Result<bool> is_defined(Interpreter&, const Value& subject, const Value&) {
  return !subject.is(Kind::undefined);
}

Result<bool> is_true(Interpreter&, const Value& subject, const Value&) {
  return subject.is(Kind::boolean) && subject.as_boolean();
}

Result<bool> is_false(Interpreter&, const Value& subject, const Value&) {
  return subject.is(Kind::boolean) && !subject.as_boolean();
}

Result<bool> is_number(Interpreter&, const Value& subject, const Value&) {
  return subject.is_number();
}

Result<bool> is_iterable(Interpreter&, const Value& subject, const Value&) {
  return subject.is_sequence() || subject.is(Kind::text) || subject.is(Kind::dict) ||
         subject.is(Kind::undefined);
}

Result<bool> is_sequence(Interpreter&, const Value& subject, const Value&) {
  // As in Jinja2: whatever has a length and items by index, a dict and undefined too.
  return subject.is_sequence() || subject.is(Kind::text) || subject.is(Kind::dict) ||
         subject.is(Kind::undefined);
}

Result<bool> is_callable(Interpreter&, const Value& subject, const Value&) {
  return subject.is(Kind::undefined) ||
         (subject.is(Kind::object) && subject.as_object()->callable());
}

Result<bool> divides(Interpreter& interpreter, const Value& subject, const Value& divisor) {
  BATON_ASSIGN(const Value rest, arithmetic(interpreter, Operator::modulo, subject, divisor));
  return rest == Value::integer(0);
}

Result<bool> is_even(Interpreter& interpreter, const Value& subject, const Value&) {
  return divides(interpreter, subject, Value::integer(2));
}

Result<bool> is_odd(Interpreter& interpreter, const Value& subject, const Value&) {
  BATON_ASSIGN(const Value rest,
               arithmetic(interpreter, Operator::modulo, subject, Value::integer(2)));
  return rest == Value::integer(1);
}

Result<bool> is_in(Interpreter& interpreter, const Value& subject, const Value& container) {
  return contains(interpreter, container, subject);
}

// Some letter, and none of the other case.
template <Text (*to_case)(const Text&), Text (*to_other)(const Text&)>
Result<bool> has_case(Interpreter& interpreter, const Value& subject, const Value&) {
  BATON_ASSIGN(const Text text, interpreter.to_text(subject));
  BATON_TRY(interpreter.charge(text.size()));
  return to_case(text).view() == text.view() && to_other(text).view() != text.view();
}

Result<bool> is_same(Interpreter&, const Value& subject, const Value& other) {
  return subject.kind() == other.kind() && subject == other;
}

constexpr std::array table = {
    NamedTest{"defined", 0, is_defined},
    NamedTest{"undefined", 0, is_kind<Kind::undefined>},
    NamedTest{"none", 0, is_kind<Kind::none>},
    NamedTest{"boolean", 0, is_kind<Kind::boolean>},
    NamedTest{"integer", 0, is_kind<Kind::integer>},
    NamedTest{"float", 0, is_kind<Kind::floating>},
    NamedTest{"string", 0, is_kind<Kind::text>},
    NamedTest{"mapping", 0, is_kind<Kind::dict>},
    NamedTest{"true", 0, is_true},
    NamedTest{"false", 0, is_false},
    NamedTest{"number", 0, is_number},
    NamedTest{"iterable", 0, is_iterable},
    NamedTest{"sequence", 0, is_sequence},
    NamedTest{"callable", 0, is_callable},
    NamedTest{"even", 0, is_even},
    NamedTest{"odd", 0, is_odd},
    NamedTest{"divisibleby", 1, divides},
    NamedTest{"in", 1, is_in},
    NamedTest{"lower", 0, has_case<lower, upper>},
    NamedTest{"upper", 0, has_case<upper, lower>},
    NamedTest{"sameas", 1, is_same},
    NamedTest{"eq", 1, compares<Operator::equal>},
    NamedTest{"equalto", 1, compares<Operator::equal>},
    NamedTest{"==", 1, compares<Operator::equal>},
    NamedTest{"ne", 1, compares<Operator::not_equal>},
    NamedTest{"!=", 1, compares<Operator::not_equal>},
    NamedTest{"lt", 1, compares<Operator::less>},
    NamedTest{"lessthan", 1, compares<Operator::less>},
    NamedTest{"<", 1, compares<Operator::less>},
    NamedTest{"le", 1, compares<Operator::less_equal>},
    NamedTest{"<=", 1, compares<Operator::less_equal>},
    NamedTest{"gt", 1, compares<Operator::greater>},
    NamedTest{"greaterthan", 1, compares<Operator::greater>},
    NamedTest{">", 1, compares<Operator::greater>},
    NamedTest{"ge", 1, compares<Operator::greater_equal>},
    NamedTest{">=", 1, compares<Operator::greater_equal>},
};

}  // namespace

Result<Value> Interpreter::apply_test(const std::string& name, const Value& subject,
                                      const Arguments& arguments) {
  BATON_TRY(charge());
  const auto found = std::find_if(table.begin(), table.end(),
                                  [&](const NamedTest& test) { return test.name == name; });
  if (found == table.end()) return fail("the test '" + name + "' is not supported");
  if (arguments.positional.size() != found->arguments || !arguments.named.empty()) {
    return fail("the test '" + name + "' takes " + std::to_string(found->arguments) + " arguments");
  }
  const Value argument = found->arguments == 1 ? arguments.positional[0] : Value();
  BATON_ASSIGN(const bool holds, found->holds(*this, subject, argument));
  return Value::boolean(holds);
}

}  // namespace baton::tokenizer::jinja
