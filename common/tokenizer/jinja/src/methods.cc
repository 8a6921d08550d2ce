// Methods of strings, dicts, lists and loops: those that chat templates call and that change
// nothing.
#include <algorithm>
#include <array>
#include <iterator>

#include "interpreter.h"
#include "text_ops.h"
#include "unicode.h"

namespace baton::tokenizer::jinja {
namespace {

using Method = Result<Value> (*)(Interpreter&, const Value& self, const Arguments&);
struct NamedMethod {
  std::string_view name;
  Method call;
};

Result<const Text*> text_argument(Interpreter& interpreter, const std::optional<Value>& argument) {
  if (!argument || !argument->is(Kind::text)) {
    return interpreter.fail("a string is needed as argument, found " +
                            (argument ? describe(*argument) : std::string("none")));
  }
  return &argument->as_text();
}

// nullptr for an absent argument or none.
Result<const Text*> optional_text(Interpreter& interpreter, const std::optional<Value>& argument) {
  if (!argument || argument->is(Kind::none)) return static_cast<const Text*>(nullptr);
  return text_argument(interpreter, argument);
}

// A count that means "all" when absent or negative.
Result<std::size_t> limit_argument(Interpreter& interpreter, const std::optional<Value>& argument) {
  if (!argument) return no_limit;
  if (!argument->is(Kind::integer)) return interpreter.fail("a count is " + describe(*argument));
  if (argument->as_integer() < 0) return no_limit;
  return static_cast<std::size_t>(argument->as_integer());
}

Result<Value> strip_method(Interpreter& interpreter, const Value& self, const Arguments& arguments,
                           bool left, bool right) {
  BATON_ASSIGN(const auto bound, bind(interpreter, "strip", arguments, {"chars"}));
  BATON_ASSIGN(const Text* characters, optional_text(interpreter, bound[0]));
  const std::size_t set_size = characters == nullptr ? 1 : characters->size();
  BATON_TRY(interpreter.charge(self.as_text().size() * std::min<std::size_t>(set_size, 64)));
  if (set_size > 64) return interpreter.fail("too many characters to strip");
  return interpreter.text_value(strip(self.as_text(), characters, left, right));
}

Result<Value> strip_both(Interpreter& i, const Value& self, const Arguments& a) {
  return strip_method(i, self, a, true, true);
}
Result<Value> strip_left(Interpreter& i, const Value& self, const Arguments& a) {
  return strip_method(i, self, a, true, false);
}
Result<Value> strip_right(Interpreter& i, const Value& self, const Arguments& a) {
  return strip_method(i, self, a, false, true);
}

template <Text (*operation)(const Text&)>
Result<Value> map_method(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  BATON_TRY(bind(interpreter, "this method", arguments, {}));
  BATON_TRY(interpreter.charge(self.as_text().size()));
  return interpreter.text_value(operation(self.as_text()));
}

Result<Value> text_list(Interpreter& interpreter, std::vector<Text> parts) {
  std::vector<Value> items;
  items.reserve(parts.size());
  for (Text& part : parts) {
    BATON_TRY(interpreter.charge(sizeof(Text) + part.size()));
    items.push_back(Value::text(std::move(part)));
  }
  return interpreter.list_value(std::move(items));
}

using Splitter = std::vector<Text> (*)(const Text&, const Text*, std::size_t);

template <Splitter splitter>
Result<Value> split_method(Interpreter& interpreter, const Value& self,
                           const Arguments& arguments) {
  BATON_ASSIGN(const auto bound, bind(interpreter, "split", arguments, {"sep", "maxsplit"}));
  BATON_ASSIGN(const Text* separator, optional_text(interpreter, bound[0]));
  BATON_ASSIGN(const std::size_t limit, limit_argument(interpreter, bound[1]));
  if (separator != nullptr && separator->empty()) return interpreter.fail("an empty separator");
  // A part costs more than its bytes; the search from the right is not linear in the separator.
  const bool quadratic = splitter == split_right && separator != nullptr;
  const std::size_t weight = quadratic ? separator->size() + 4 : 4;
  if (weight > 1024) return interpreter.fail("a separator is too long");
  BATON_TRY(interpreter.charge(self.as_text().size() * weight));
  return text_list(interpreter, splitter(self.as_text(), separator, limit));
}

Result<Value> split_lines_method(Interpreter& interpreter, const Value& self,
                                 const Arguments& arguments) {
  BATON_ASSIGN(const auto bound, bind(interpreter, "splitlines", arguments, {"keepends"}));
  BATON_TRY(interpreter.charge(self.as_text().size() * 4));
  return text_list(interpreter, split_lines(self.as_text(), bound[0] && bound[0]->truthy()));
}

template <bool at_start>
bool has_affix(std::string_view text, std::string_view affix) {
  return at_start ? text.starts_with(affix) : text.ends_with(affix);
}

template <bool at_start>
Result<Value> affix_method(Interpreter& interpreter, const Value& self,
                           const Arguments& arguments) {
  BATON_ASSIGN(const auto bound, bind(interpreter, "startswith", arguments, {"prefix"}));
  const std::string_view text = self.as_text().view();
  if (bound[0] && bound[0]->is(Kind::tuple)) {
    for (const Value& candidate : bound[0]->as_items()) {
      BATON_ASSIGN(const Text* affix, text_argument(interpreter, candidate));
      if (has_affix<at_start>(text, affix->view())) return Value::boolean(true);
    }
    return Value::boolean(false);
  }
  BATON_ASSIGN(const Text* affix, text_argument(interpreter, bound[0]));
  return Value::boolean(has_affix<at_start>(text, affix->view()));
}

template <bool at_start>
Result<Value> remove_affix_method(Interpreter& interpreter, const Value& self,
                                  const Arguments& arguments) {
  BATON_ASSIGN(const auto bound, bind(interpreter, "removeprefix", arguments, {"prefix"}));
  BATON_ASSIGN(const Text* affix, text_argument(interpreter, bound[0]));
  const Text& text = self.as_text();
  if (!has_affix<at_start>(text.view(), affix->view())) return self;
  const std::size_t rest = text.size() - affix->size();
  return interpreter.text_value(at_start ? text.slice(affix->size(), text.size())
                                         : text.slice(0, rest));
}

Result<Value> replace_method(Interpreter& interpreter, const Value& self,
                             const Arguments& arguments) {
  BATON_ASSIGN(const auto bound, bind(interpreter, "replace", arguments, {"old", "new", "count"}));
  BATON_ASSIGN(const Text* from, text_argument(interpreter, bound[0]));
  BATON_ASSIGN(const Text* to, text_argument(interpreter, bound[1]));
  BATON_ASSIGN(const std::size_t limit, limit_argument(interpreter, bound[2]));
  const Text& text = self.as_text();
  BATON_TRY(interpreter.charge(text.size()));
  const std::size_t times = std::min(count_occurrences(text, *from), limit);
  const std::size_t most = interpreter.options().limits.max_output_bytes;
  if (to->size() != 0 && times > most / to->size()) {
    return interpreter.fail("the output limit is exceeded");
  }
  BATON_TRY(interpreter.charge(times * to->size()));
  return interpreter.text_value(replace(text, *from, *to, limit));
}

template <bool from_left>
Result<Value> find_method(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  BATON_ASSIGN(const auto bound, bind(interpreter, "find", arguments, {"sub"}));
  BATON_ASSIGN(const Text* wanted, text_argument(interpreter, bound[0]));
  const std::string_view text = self.as_text().view();
  BATON_TRY(interpreter.charge(text.size()));
  std::size_t found = 0;
  if (wanted->empty()) {
    found = from_left ? 0 : text.size();
  } else if (from_left) {
    found = find_bytes(text, wanted->view(), 0);
  } else {
    found = std::string_view::npos;
    for (std::size_t at = 0; (at = find_bytes(text, wanted->view(), at)) != std::string_view::npos;
         ++at) {
      // Every restart may read the needle again.
      BATON_TRY(interpreter.charge(wanted->size()));
      found = at;
    }
  }
  if (found == std::string_view::npos) return Value::integer(-1);
  return Value::integer(static_cast<std::int64_t>(count_characters(text.substr(0, found))));
}

Result<Value> count_method(Interpreter& interpreter, const Value& self,
                           const Arguments& arguments) {
  BATON_ASSIGN(const auto bound, bind(interpreter, "count", arguments, {"sub"}));
  if (self.is_sequence()) {
    BATON_TRY(interpreter.charge_value(self));
    const auto& items = self.as_items();
    return Value::integer(bound[0] ? std::count(items.begin(), items.end(), *bound[0]) : 0);
  }
  BATON_ASSIGN(const Text* wanted, text_argument(interpreter, bound[0]));
  BATON_TRY(interpreter.charge(self.as_text().size()));
  return Value::integer(static_cast<std::int64_t>(count_occurrences(self.as_text(), *wanted)));
}

Result<Value> join_method(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  BATON_ASSIGN(const auto bound, bind(interpreter, "join", arguments, {"iterable"}));
  BATON_ASSIGN(const std::vector<Value> items, interpreter.iterate(bound[0].value_or(Value())));
  Text out;
  for (std::size_t i = 0; i < items.size(); ++i) {
    BATON_ASSIGN(const Text* part, text_argument(interpreter, items[i]));
    if (i > 0) out.append(self.as_text());
    out.append(*part);
    BATON_TRY(interpreter.charge(part->size() + self.as_text().size()));
    if (out.size() > interpreter.options().limits.max_output_bytes) {
      return interpreter.fail("the output limit is exceeded");
    }
  }
  return interpreter.text_value(std::move(out));
}

template <bool (*wanted)(char32_t)>
Result<Value> all_method(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  BATON_TRY(bind(interpreter, "this method", arguments, {}));
  const std::string_view text = self.as_text().view();
  BATON_TRY(interpreter.charge(text.size()));
  for (std::size_t at = 0; at < text.size(); at += character_at(text, at).size_bytes) {
    if (!wanted(character_at(text, at).code)) return Value::boolean(false);
  }
  return Value::boolean(!text.empty());
}

bool is_letter_or_digit(char32_t code) { return is_letter(code) || is_digit(code); }

constexpr std::array text_methods = {
    NamedMethod{"strip", strip_both},
    NamedMethod{"lstrip", strip_left},
    NamedMethod{"rstrip", strip_right},
    NamedMethod{"upper", map_method<upper>},
    NamedMethod{"lower", map_method<lower>},
    NamedMethod{"title", map_method<title>},
    NamedMethod{"capitalize", map_method<capitalize>},
    NamedMethod{"split", split_method<split>},
    NamedMethod{"rsplit", split_method<split_right>},
    NamedMethod{"splitlines", split_lines_method},
    NamedMethod{"startswith", affix_method<true>},
    NamedMethod{"endswith", affix_method<false>},
    NamedMethod{"removeprefix", remove_affix_method<true>},
    NamedMethod{"removesuffix", remove_affix_method<false>},
    NamedMethod{"replace", replace_method},
    NamedMethod{"find", find_method<true>},
    NamedMethod{"rfind", find_method<false>},
    NamedMethod{"count", count_method},
    NamedMethod{"join", join_method},
    NamedMethod{"isdigit", all_method<is_digit>},
    NamedMethod{"isalpha", all_method<is_letter>},
    NamedMethod{"isalnum", all_method<is_letter_or_digit>},
    NamedMethod{"isspace", all_method<is_space>},
};

template <bool with_key, bool with_value>
Result<Value> dict_items(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  BATON_TRY(bind(interpreter, "this method", arguments, {}));
  std::vector<Value> out;
  out.reserve(self.as_dict().size());
  for (const auto& [key, value] : self.as_dict().entries()) {
    if (with_key && with_value) {
      BATON_ASSIGN(Value pair, interpreter.list_value({key, value}, true));
      out.push_back(std::move(pair));
    } else {
      out.push_back(with_key ? key : value);
    }
  }
  return interpreter.list_value(std::move(out));
}

Result<Value> dict_get(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  BATON_ASSIGN(const auto bound, bind(interpreter, "get", arguments, {"key", "default"}));
  if (!bound[0] || !is_hashable(*bound[0])) return interpreter.fail("'get' needs a key");
  BATON_TRY(interpreter.charge(bound[0]->is(Kind::text) ? 0 : self.as_dict().size()));
  if (const Value* found = self.as_dict().find(*bound[0])) return *found;
  return bound[1].value_or(Value::none());
}

Result<Value> dict_copy(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  BATON_TRY(bind(interpreter, "copy", arguments, {}));
  return self;  // values never change
}

constexpr std::array dict_methods = {
    NamedMethod{"items", dict_items<true, true>},
    NamedMethod{"keys", dict_items<true, false>},
    NamedMethod{"values", dict_items<false, true>},
    NamedMethod{"get", dict_get},
    NamedMethod{"copy", dict_copy},
};

Result<Value> list_index(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  BATON_ASSIGN(const auto bound, bind(interpreter, "index", arguments, {"value"}));
  BATON_TRY(interpreter.charge_value(self));
  const auto& items = self.as_items();
  const auto found = bound[0] ? std::find(items.begin(), items.end(), *bound[0]) : items.end();
  if (found == items.end()) return interpreter.fail("the value is not in the list");
  return Value::integer(found - items.begin());
}

constexpr std::array list_methods = {NamedMethod{"count", count_method},
                                     NamedMethod{"index", list_index}};

Loop* as_loop(const Value& self) {
  return self.is(Kind::object) ? dynamic_cast<Loop*>(self.as_object().get()) : nullptr;
}

Result<Value> loop_cycle(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  if (arguments.positional.empty()) return interpreter.fail("'cycle' needs items");
  return arguments.positional[as_loop(self)->index % arguments.positional.size()];
}

Result<Value> loop_changed(Interpreter& interpreter, const Value& self,
                           const Arguments& arguments) {
  const auto loop = std::static_pointer_cast<Loop>(self.as_object());
  for (const Value& value : arguments.positional) BATON_TRY(interpreter.charge_value(value));
  if (!loop->last_changed) interpreter.keep(loop);
  const bool changed = loop->last_changed != arguments.positional;
  loop->last_changed = arguments.positional;
  return Value::boolean(changed);
}

constexpr std::array loop_methods = {NamedMethod{"cycle", loop_cycle},
                                     NamedMethod{"changed", loop_changed}};

template <std::size_t size>
Method find_in(const std::array<NamedMethod, size>& methods, std::string_view name) {
  const auto found = std::find_if(methods.begin(), methods.end(),
                                  [&](const NamedMethod& m) { return m.name == name; });
  return found == methods.end() ? nullptr : found->call;
}

Method find_method_of(const Value& self, std::string_view name) {
  if (self.is(Kind::text)) return find_in(text_methods, name);
  if (self.is(Kind::dict)) return find_in(dict_methods, name);
  if (self.is_sequence()) return find_in(list_methods, name);
  if (as_loop(self) != nullptr) return find_in(loop_methods, name);
  return nullptr;
}

}  // namespace

bool has_method(const Value& self, std::string_view name) {
  return find_method_of(self, name) != nullptr;
}

Result<Value> call_method(Interpreter& interpreter, const Value& self, const std::string& name,
                          const Arguments& arguments) {
  BATON_TRY(interpreter.charge());
  return find_method_of(self, name)(interpreter, self, arguments);
}

}  // namespace baton::tokenizer::jinja
