// Filters on sequences: ends, order, sums.
#include <algorithm>
#include <array>
#include <iterator>

#include "filters.h"
#include "text_ops.h"

namespace baton::tokenizer::jinja {
namespace {

Result<Value> first(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  BATON_TRY(bind(interpreter, "first", arguments, {}));
  BATON_ASSIGN(const std::vector<Value> items, interpreter.iterate(input));
  if (items.empty()) return Value::undefined("the first item of an empty sequence");
  return items.front();
}

Result<Value> last(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  BATON_TRY(bind(interpreter, "last", arguments, {}));
  BATON_ASSIGN(const std::vector<Value> items, interpreter.iterate(input));
  if (items.empty()) return Value::undefined("the last item of an empty sequence");
  return items.back();
}

Result<Value> list_filter(Interpreter& interpreter, const Value& input,
                          const Arguments& arguments) {
  BATON_TRY(bind(interpreter, "list", arguments, {}));
  BATON_ASSIGN(std::vector<Value> items, interpreter.iterate(input));
  return interpreter.list_value(std::move(items));
}

Result<Value> items_filter(Interpreter& interpreter, const Value& input,
                           const Arguments& arguments) {
  if (input.is(Kind::undefined)) return interpreter.list_value({});
  if (!input.is(Kind::dict)) return interpreter.fail("'items' of " + describe(input));
  return call_method(interpreter, input, "items", arguments);
}

Result<Value> reverse(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  BATON_TRY(bind(interpreter, "reverse", arguments, {}));
  BATON_ASSIGN(std::vector<Value> items, interpreter.iterate(input));
  std::reverse(items.begin(), items.end());
  if (!input.is(Kind::text)) return interpreter.list_value(std::move(items));
  Text out;
  for (const Value& character : items) out.append(character.as_text());
  return interpreter.text_value(std::move(out));
}

// What is compared: the item or its attribute, in lower case unless `case_sensitive`.
Result<Value> sort_key(Interpreter& interpreter, const Value& item, const Value* path,
                       bool case_sensitive) {
  Value key = item;
  if (path != nullptr) {
    BATON_ASSIGN(key, attribute_path(interpreter, item, *path));
  }
  if (case_sensitive || !key.is(Kind::text)) return key;
  BATON_TRY(interpreter.charge(key.as_text().size()));
  return Value::text(lower(key.as_text()));
}

struct Keyed {
  Value key;
  Value item;
};

Result<std::vector<Keyed>> keyed(Interpreter& interpreter, const Value& input, const Value* path,
                                 bool case_sensitive) {
  BATON_ASSIGN(std::vector<Value> items, interpreter.iterate(input));
  std::vector<Keyed> out;
  out.reserve(items.size());
  for (Value& item : items) {
    BATON_ASSIGN(Value key, sort_key(interpreter, item, path, case_sensitive));
    out.push_back({std::move(key), std::move(item)});
  }
  return out;
}

// Stable merge sort: a comparison may fail, which std::sort cannot pass on.
Result<void> sort_keyed(Interpreter& interpreter, std::vector<Keyed>& items, bool reverse) {
  std::vector<Keyed> merged(items.size());
  for (std::size_t width = 1; width < items.size(); width *= 2) {
    for (std::size_t begin = 0; begin < items.size(); begin += 2 * width) {
      const std::size_t middle = std::min(begin + width, items.size());
      const std::size_t end = std::min(begin + 2 * width, items.size());
      std::size_t left = begin;
      std::size_t right = middle;
      for (std::size_t at = begin; at < end; ++at) {
        BATON_TRY(interpreter.charge());
        bool take_right = left == middle;
        if (!take_right && right < end) {
          BATON_ASSIGN(const int sign, order(interpreter, items[right].key, items[left].key));
          take_right = reverse ? sign > 0 : sign < 0;
        }
        merged[at] = items[take_right ? right++ : left++];
      }
    }
    items.swap(merged);
  }
  return ok();
}

const Value* pointer(const std::optional<Value>& value) {
  return value && !value->is(Kind::none) ? &*value : nullptr;
}

Result<Value> list_of_items(Interpreter& interpreter, std::vector<Keyed> sorted) {
  std::vector<Value> items;
  items.reserve(sorted.size());
  for (Keyed& entry : sorted) items.push_back(std::move(entry.item));
  return interpreter.list_value(std::move(items));
}

Result<Value> sort(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  BATON_ASSIGN(const auto bound,
               bind(interpreter, "sort", arguments, {"reverse", "case_sensitive", "attribute"}));
  const bool case_sensitive = bound[1] && bound[1]->truthy();
  BATON_ASSIGN(std::vector<Keyed> items,
               keyed(interpreter, input, pointer(bound[2]), case_sensitive));
  BATON_TRY(sort_keyed(interpreter, items, bound[0] && bound[0]->truthy()));
  return list_of_items(interpreter, std::move(items));
}

Result<Value> dictsort(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  BATON_ASSIGN(const auto bound,
               bind(interpreter, "dictsort", arguments, {"case_sensitive", "by", "reverse"}));
  const bool case_sensitive = bound[0] && bound[0]->truthy();
  const bool by_value = bound[1] && *bound[1] == Value::trusted("value");
  if (!input.is(Kind::dict)) return interpreter.fail("'dictsort' of " + describe(input));
  BATON_ASSIGN(const Value pairs, items_filter(interpreter, input, {}));
  const Value position = Value::integer(by_value ? 1 : 0);
  BATON_ASSIGN(std::vector<Keyed> items, keyed(interpreter, pairs, &position, case_sensitive));
  BATON_TRY(sort_keyed(interpreter, items, bound[2] && bound[2]->truthy()));
  return list_of_items(interpreter, std::move(items));
}

Result<Value> unique(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  BATON_ASSIGN(const auto bound,
               bind(interpreter, "unique", arguments, {"case_sensitive", "attribute"}));
  const bool case_sensitive = bound[0] && bound[0]->truthy();
  BATON_ASSIGN(std::vector<Keyed> items,
               keyed(interpreter, input, pointer(bound[1]), case_sensitive));
  std::vector<Value> seen;
  std::vector<Value> out;
  for (Keyed& entry : items) {
    if (!is_hashable(entry.key)) return interpreter.fail("'unique' over " + describe(entry.key));
    for (const Value& before : seen) BATON_TRY(interpreter.charge_value(before));
    if (std::find(seen.begin(), seen.end(), entry.key) != seen.end()) continue;
    seen.push_back(std::move(entry.key));
    out.push_back(std::move(entry.item));
  }
  return interpreter.list_value(std::move(out));
}

template <bool largest>
Result<Value> extreme(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  BATON_ASSIGN(const auto bound,
               bind(interpreter, "min", arguments, {"case_sensitive", "attribute"}));
  const bool case_sensitive = bound[0] && bound[0]->truthy();
  BATON_ASSIGN(std::vector<Keyed> items,
               keyed(interpreter, input, pointer(bound[1]), case_sensitive));
  if (items.empty()) return Value::undefined("an item of an empty sequence");
  std::size_t best = 0;
  for (std::size_t i = 1; i < items.size(); ++i) {
    BATON_ASSIGN(const int sign, order(interpreter, items[i].key, items[best].key));
    if (largest ? sign > 0 : sign < 0) best = i;
  }
  return items[best].item;
}

Result<Value> sum(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  BATON_ASSIGN(const auto bound, bind(interpreter, "sum", arguments, {"attribute", "start"}));
  BATON_ASSIGN(const std::vector<Value> items, interpreter.iterate(input));
  Value total = bound[1].value_or(Value::integer(0));
  for (const Value& item : items) {
    Value part = item;
    if (const Value* path = pointer(bound[0])) {
      BATON_ASSIGN(part, attribute_path(interpreter, item, *path));
    }
    BATON_ASSIGN(total, arithmetic(interpreter, Operator::add, total, part));
  }
  return total;
}

constexpr std::array table = {
    NamedFilter{"first", first},
    NamedFilter{"last", last},
    NamedFilter{"list", list_filter},
    NamedFilter{"items", items_filter},
    NamedFilter{"reverse", reverse},
    NamedFilter{"sort", sort},
    NamedFilter{"dictsort", dictsort},
    NamedFilter{"unique", unique},
    NamedFilter{"min", extreme<false>},
    NamedFilter{"max", extreme<true>},
    NamedFilter{"sum", sum},
};

}  // namespace

std::span<const NamedFilter> sequence_filters() { return table; }

}  // namespace baton::tokenizer::jinja
