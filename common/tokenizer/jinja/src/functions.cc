// Global functions: raise_exception, strftime_now, namespace, range, dict.
#include <array>
#include <ctime>

#include "interpreter.h"

namespace baton::tokenizer::jinja {
namespace {

// As in Jinja2's sandbox.
constexpr std::int64_t longest_range = 100'000;

struct NamedFunction {
  std::string_view name;
  FunctionName function;
};

constexpr std::array functions = {
    NamedFunction{"raise_exception", FunctionName::raise_exception},
    NamedFunction{"strftime_now", FunctionName::strftime_now},
    NamedFunction{"namespace", FunctionName::make_namespace},
    NamedFunction{"range", FunctionName::range},
    NamedFunction{"dict", FunctionName::dict},
};

// What the template says is wrong with the messages. User text in it is left out (R24).
Result<Value> raise_exception(Interpreter& interpreter, const Arguments& arguments) {
  BATON_ASSIGN(const auto bound, bind(interpreter, "raise_exception", arguments, {"message"}));
  BATON_ASSIGN(const Text text, interpreter.to_text(bound[0].value_or(Value())));
  std::string message;
  std::size_t copied = 0;
  for (const ByteRange& range : text.user_ranges()) {
    message.append(text.bytes(), copied, range.begin - copied).append("(...)");
    copied = range.end;
  }
  message.append(text.bytes(), copied);
  return interpreter.fail("the model's chat template refuses the messages: " + message);
}

Result<Value> strftime_now(Interpreter& interpreter, const Arguments& arguments) {
  BATON_ASSIGN(const auto bound, bind(interpreter, "strftime_now", arguments, {"format"}));
  if (!bound[0] || !bound[0]->is(Kind::text))
    return interpreter.fail("strftime_now needs a format");
  const CivilTime& now = *interpreter.options().now;
  std::tm time{};
  time.tm_year = now.year - 1900;
  time.tm_mon = now.month - 1;
  time.tm_mday = now.day;
  time.tm_hour = now.hour;
  time.tm_min = now.minute;
  time.tm_sec = now.second;
  // Fills in the day of the week and of the year; it reads no time zone.
  const std::time_t seconds = ::timegm(&time);
  ::gmtime_r(&seconds, &time);
  const Text& format = bound[0]->as_text();
  if (format.size() > 256) return interpreter.fail("a time format is too long");
  if (format.empty()) return *bound[0];
  std::array<char, 4096> buffer;
  const std::size_t size =
      std::strftime(buffer.data(), buffer.size(), format.bytes().c_str(), &time);
  const Origin origin = format.has_user_data() ? Origin::user : Origin::trusted;
  return interpreter.text_value(Text(std::string(buffer.data(), size), origin));
}

Result<Value> make_namespace(Interpreter& interpreter, const Arguments& arguments) {
  auto space = std::make_shared<Namespace>();
  if (arguments.positional.size() > 1) {
    return interpreter.fail("'namespace' takes at most 1 argument");
  }
  if (!arguments.positional.empty()) {
    const Value& start = arguments.positional[0];
    if (!start.is(Kind::dict)) return interpreter.fail("a namespace is made from a dict");
    BATON_TRY(interpreter.charge_value(start));
    for (const auto& [key, value] : start.as_dict().entries()) {
      if (key.is(Kind::text)) space->attributes[key.as_text().bytes()] = value;
    }
  }
  for (const auto& [name, value] : arguments.named) space->attributes[name] = value;
  interpreter.keep(space);
  return Value::object(std::move(space));
}

Result<Value> range(Interpreter& interpreter, const Arguments& arguments) {
  BATON_ASSIGN(const auto bound, bind(interpreter, "range", arguments, {"start", "stop", "step"}));
  std::array<std::int64_t, 3> numbers = {0, 0, 1};
  for (std::size_t i = 0; i < 3; ++i) {
    if (!bound[i]) continue;
    if (!bound[i]->is(Kind::integer)) {
      return interpreter.fail("a range is bounded by " + describe(*bound[i]));
    }
    numbers[i] = bound[i]->as_integer();
  }
  if (!bound[0]) return interpreter.fail("'range' needs an end");
  if (!bound[1]) {
    numbers[1] = numbers[0];
    numbers[0] = 0;
  }
  const auto [start, stop, step] = numbers;
  if (step == 0) return interpreter.fail("a range with step 0");
  std::vector<Value> items;
  for (std::int64_t at = start; step > 0 ? at < stop : at > stop;) {
    if (items.size() >= longest_range) return interpreter.fail("a range is too long");
    items.push_back(Value::integer(at));
    if (__builtin_add_overflow(at, step, &at)) break;
  }
  return interpreter.list_value(std::move(items));
}

Result<Value> make_dict(Interpreter& interpreter, const Arguments& arguments) {
  std::vector<std::pair<Value, Value>> entries;
  if (arguments.positional.size() > 1) return interpreter.fail("'dict' takes at most 1 argument");
  if (!arguments.positional.empty()) {
    if (!arguments.positional[0].is(Kind::dict)) return interpreter.fail("'dict' needs a dict");
    entries = arguments.positional[0].as_dict().entries();
  }
  for (const auto& [name, value] : arguments.named) {
    entries.emplace_back(Value::trusted(name), value);
  }
  return interpreter.dict_value(std::move(entries));
}

}  // namespace

std::shared_ptr<Function> find_function(std::string_view name, const RenderOptions& options) {
  for (const NamedFunction& candidate : functions) {
    if (candidate.name != name) continue;
    if (candidate.function == FunctionName::strftime_now && !options.now) return nullptr;
    return std::make_shared<Function>(candidate.function);
  }
  return nullptr;
}

Result<Value> call_function(Interpreter& interpreter, FunctionName name,
                            const Arguments& arguments) {
  BATON_TRY(interpreter.charge());
  switch (name) {
    case FunctionName::raise_exception:
      return raise_exception(interpreter, arguments);
    case FunctionName::strftime_now:
      return strftime_now(interpreter, arguments);
    case FunctionName::make_namespace:
      return make_namespace(interpreter, arguments);
    case FunctionName::range:
      return range(interpreter, arguments);
    case FunctionName::dict:
      return make_dict(interpreter, arguments);
  }
  return interpreter.fail("unknown function");
}

}  // namespace baton::tokenizer::jinja
