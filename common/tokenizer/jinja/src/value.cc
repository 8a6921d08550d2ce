#include "baton/tokenizer/jinja/value.h"

#include <algorithm>

#include "baton/base/check.h"

namespace baton::tokenizer::jinja {
namespace {

double number(const Value& value) {
  switch (value.kind()) {
    case Kind::boolean:
      return value.as_boolean() ? 1.0 : 0.0;
    case Kind::integer:
      return static_cast<double>(value.as_integer());
    default:
      return value.as_floating();
  }
}

bool equal_numbers(const Value& a, const Value& b) {
  if (a.is(Kind::integer) && b.is(Kind::integer)) return a.as_integer() == b.as_integer();
  return number(a) == number(b);
}

bool equal_dicts(const Dict& a, const Dict& b) {
  if (a.size() != b.size()) return false;
  return std::all_of(a.entries().begin(), a.entries().end(), [&](const auto& entry) {
    const Value* other = b.find(entry.first);
    return other != nullptr && *other == entry.second;
  });
}

}  // namespace

Value Value::undefined(std::string hint) {
  Value out;
  out.data_ = Undefined{std::make_shared<const std::string>(std::move(hint))};
  return out;
}

Value Value::none() {
  Value out;
  out.data_ = None{};
  return out;
}

Value Value::boolean(bool value) {
  Value out;
  out.data_ = value;
  return out;
}

Value Value::integer(std::int64_t value) {
  Value out;
  out.data_ = value;
  return out;
}

Value Value::floating(double value) {
  Value out;
  out.data_ = value;
  return out;
}

Value Value::text(Text value) {
  Value out;
  out.data_ = std::make_shared<const Text>(std::move(value));
  return out;
}

Value Value::list(std::vector<Value> items) {
  Value out;
  out.data_ = std::make_shared<const List>(std::move(items), false);
  return out;
}

Value Value::tuple(std::vector<Value> items) {
  Value out;
  out.data_ = std::make_shared<const List>(std::move(items), true);
  return out;
}

Value Value::dict(std::vector<std::pair<Value, Value>> entries) {
  Value out;
  out.data_ = std::make_shared<const Dict>(std::move(entries));
  return out;
}

Value Value::object(std::shared_ptr<Object> object) {
  Value out;
  out.data_ = std::move(object);
  return out;
}

Kind Value::kind() const {
  constexpr Kind kinds[] = {Kind::undefined, Kind::none,     Kind::boolean,
                            Kind::integer,   Kind::floating, Kind::text,
                            Kind::list,      Kind::dict,     Kind::object};
  const Kind kind = kinds[data_.index()];
  if (kind != Kind::list) return kind;
  return std::get<std::shared_ptr<const List>>(data_)->is_tuple() ? Kind::tuple : Kind::list;
}

bool Value::is_number() const {
  return is(Kind::integer) || is(Kind::floating) || is(Kind::boolean);
}

const std::string& Value::undefined_hint() const {
  static const std::string no_hint = "a value";
  const Undefined& undefined = std::get<Undefined>(data_);
  return undefined.hint ? *undefined.hint : no_hint;
}

bool Value::as_boolean() const { return std::get<bool>(data_); }
std::int64_t Value::as_integer() const { return std::get<std::int64_t>(data_); }
double Value::as_floating() const { return std::get<double>(data_); }
const Text& Value::as_text() const { return *std::get<std::shared_ptr<const Text>>(data_); }
const std::vector<Value>& Value::as_items() const {
  return std::get<std::shared_ptr<const List>>(data_)->items();
}
const Dict& Value::as_dict() const { return *std::get<std::shared_ptr<const Dict>>(data_); }
const std::shared_ptr<Object>& Value::as_object() const {
  return std::get<std::shared_ptr<Object>>(data_);
}

bool Value::truthy() const {
  switch (kind()) {
    case Kind::undefined:
    case Kind::none:
      return false;
    case Kind::boolean:
    case Kind::integer:
    case Kind::floating:
      return number(*this) != 0.0;
    case Kind::text:
      return !as_text().empty();
    case Kind::list:
    case Kind::tuple:
      return !as_items().empty();
    case Kind::dict:
      return as_dict().size() != 0;
    case Kind::object:
      return true;
  }
  return false;
}

std::size_t Value::depth() const {
  if (is_sequence()) return std::get<std::shared_ptr<const List>>(data_)->depth();
  if (is(Kind::dict)) return as_dict().depth();
  if (is(Kind::object)) return as_object()->depth();
  return 0;
}

bool operator==(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) return equal_numbers(a, b);
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::text:
      return a.as_text().view() == b.as_text().view();
    case Kind::list:
    case Kind::tuple:
      return a.as_items() == b.as_items();
    case Kind::dict:
      return equal_dicts(a.as_dict(), b.as_dict());
    case Kind::object:
      return a.as_object() == b.as_object();
    default:
      return true;  // undefined, none
  }
}

List::List(std::vector<Value> items, bool is_tuple)
    : items_(std::move(items)), is_tuple_(is_tuple), depth_(1) {
  for (const Value& item : items_) depth_ = std::max(depth_, item.depth() + 1);
}

Dict::Dict(std::vector<std::pair<Value, Value>> entries) : entries_(std::move(entries)) {
  index_text_keys();
  if (has_repeated_keys()) {
    std::vector<std::pair<Value, Value>> unique;
    for (auto& entry : entries_) {
      const auto same = std::find_if(unique.begin(), unique.end(),
                                     [&](const auto& kept) { return kept.first == entry.first; });
      if (same == unique.end()) {
        unique.push_back(std::move(entry));
      } else {
        same->second = std::move(entry.second);
      }
    }
    entries_ = std::move(unique);
    index_text_keys();
  }
  for (const auto& [key, value] : entries_) {
    depth_ = std::max({depth_, key.depth() + 1, value.depth() + 1});
  }
}

bool Dict::has_repeated_keys() const {
  for (std::size_t i = 0; i + 1 < text_keys_.size(); ++i) {
    if (entries_[text_keys_[i]].first == entries_[text_keys_[i + 1]].first) return true;
  }
  return std::any_of(entries_.begin(), entries_.end(), [this](const auto& entry) {
    return !entry.first.is(Kind::text) && find(entry.first) != &entry.second;
  });
}

void Dict::index_text_keys() {
  text_keys_.clear();
  for (std::uint32_t i = 0; i < entries_.size(); ++i) {
    if (entries_[i].first.is(Kind::text)) text_keys_.push_back(i);
  }
  const auto key_of = [this](std::uint32_t index) {
    return entries_[index].first.as_text().view();
  };
  std::stable_sort(text_keys_.begin(), text_keys_.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return key_of(a) < key_of(b); });
}

const Value* Dict::find(std::string_view key) const {
  const auto found = std::lower_bound(text_keys_.begin(), text_keys_.end(), key,
                                      [this](std::uint32_t index, std::string_view wanted) {
                                        return entries_[index].first.as_text().view() < wanted;
                                      });
  if (found == text_keys_.end()) return nullptr;
  const auto& [name, value] = entries_[*found];
  return name.as_text().view() == key ? &value : nullptr;
}

const Value* Dict::find(const Value& key) const {
  if (key.is(Kind::text)) return find(key.as_text().view());
  for (const auto& [name, value] : entries_) {
    if (name == key) return &value;
  }
  return nullptr;
}

}  // namespace baton::tokenizer::jinja
