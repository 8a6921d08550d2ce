// The kinds of options that a table can hold.
#include <algorithm>

#include <fmt/format.h>

#include "baton/base/config.h"

#include "config_values.h"

namespace baton {
namespace {

Error bad(std::string_view what) { return Error(Reason::bad_config, std::string(what)); }

/// "2 to 8", or the one-sided form where an end is the type's own.
template <typename T, typename Text>
std::string range_text(T min, T max, T lowest, T highest, Text text) {
  if (min == lowest && max == highest) return "";
  if (max == highest) return fmt::format("{} or more", text(min));
  if (min == lowest) return fmt::format("at most {}", text(max));
  return fmt::format("{} to {}", text(min), text(max));
}

/// A setter that parses, checks the range, then stores.
template <typename Stored, typename Parsed>
auto ranged_setter(Stored* value, Result<Parsed> (*parse)(std::string_view), Parsed min,
                   Parsed max) {
  return [=](std::string_view text) -> Result<void> {
    BATON_ASSIGN(const Parsed parsed, parse(text));
    if (parsed < min || parsed > max) return bad("out of range");
    *value = static_cast<Stored>(parsed);
    return ok();
  };
}

}  // namespace

void ConfigTable::add(std::string name, bool* value, std::string help) {
  Binding binding;
  binding.set = ranged_setter(value, &parse_bool, false, true);
  binding.text = [value] { return std::string(*value ? "true" : "false"); };
  binding.type = "true|false";
  binding.is_flag = true;
  add_binding(std::move(name), std::move(binding), std::move(help));
}

void ConfigTable::add(std::string name, std::string* value, std::string help) {
  Binding binding;
  binding.set = [value](std::string_view text) {
    *value = text;
    return ok();
  };
  binding.text = [value] { return *value; };
  binding.type = "TEXT";
  add_binding(std::move(name), std::move(binding), std::move(help));
}

void ConfigTable::add_path(std::string name, std::string* value, std::string help) {
  Binding binding;
  binding.set = [value](std::string_view text) -> Result<void> {
    if (text.find('\0') != std::string_view::npos) return bad("not a path");
    *value = text;
    return ok();
  };
  binding.text = [value] { return *value; };
  binding.type = "PATH";
  add_binding(std::move(name), std::move(binding), std::move(help));
}

void ConfigTable::add(std::string name, Endpoint* value, std::string help) {
  Binding binding;
  binding.set = [value](std::string_view text) -> Result<void> {
    BATON_ASSIGN(*value, parse_endpoint(text));
    return ok();
  };
  binding.text = [value] { return value->to_string(); };
  binding.type = "HOST:PORT";
  add_binding(std::move(name), std::move(binding), std::move(help));
}

void ConfigTable::add(std::string name, std::vector<std::string>* value, std::string help) {
  Binding binding;
  binding.set = [value](std::string_view text) -> Result<void> {
    BATON_ASSIGN(*value, parse_list(text));
    return ok();
  };
  binding.text = [value] { return list_text(*value); };
  binding.type = "LIST";
  binding.is_list = true;
  add_binding(std::move(name), std::move(binding), std::move(help));
}

void ConfigTable::add(std::string name, std::vector<Endpoint>* value, std::string help) {
  Binding binding;
  binding.set = [value](std::string_view text) -> Result<void> {
    BATON_ASSIGN(const auto items, parse_list(text));
    std::vector<Endpoint> endpoints;
    for (const std::string& item : items) {
      BATON_ASSIGN(Endpoint endpoint, parse_endpoint(item));
      endpoints.push_back(std::move(endpoint));
    }
    *value = std::move(endpoints);
    return ok();
  };
  binding.text = [value] {
    std::vector<std::string> items;
    for (const Endpoint& endpoint : *value) items.push_back(endpoint.to_string());
    return list_text(items);
  };
  binding.type = "HOST:PORT,…";
  binding.is_list = true;
  add_binding(std::move(name), std::move(binding), std::move(help));
}

template <typename T>
void ConfigTable::add_integer(std::string name, T* value, IntRange range, std::string help) {
  using Limits = std::numeric_limits<std::int64_t>;
  const std::int64_t min = std::max<std::int64_t>(range.min, std::numeric_limits<T>::min());
  const std::int64_t max = std::min<std::int64_t>(range.max, std::numeric_limits<T>::max());
  Binding binding;
  binding.set = ranged_setter(value, &parse_integer, min, max);
  binding.text = [value] { return std::to_string(*value); };
  binding.type = "N";
  binding.allowed = range_text(min, max, Limits::min(), Limits::max(),
                               [](std::int64_t end) { return std::to_string(end); });
  add_binding(std::move(name), std::move(binding), std::move(help));
}

void ConfigTable::add(std::string name, int* value, IntRange range, std::string help) {
  add_integer(std::move(name), value, range, std::move(help));
}

void ConfigTable::add(std::string name, std::int64_t* value, IntRange range, std::string help) {
  add_integer(std::move(name), value, range, std::move(help));
}

void ConfigTable::add(std::string name, std::uint32_t* value, IntRange range, std::string help) {
  add_integer(std::move(name), value, range, std::move(help));
}

void ConfigTable::add(std::string name, double* value, RealRange range, std::string help) {
  Binding binding;
  binding.set = ranged_setter(value, &parse_real, range.min, range.max);
  binding.text = [value] { return fmt::format("{}", *value); };
  binding.type = "NUMBER";
  binding.allowed = fmt::format("{} to {}", range.min, range.max);
  add_binding(std::move(name), std::move(binding), std::move(help));
}

void ConfigTable::add(std::string name, Duration* value, DurationRange range, std::string help) {
  Binding binding;
  binding.set = ranged_setter(value, &parse_duration, range.min, range.max);
  binding.text = [value] { return duration_text(*value); };
  binding.type = "DURATION";
  binding.allowed =
      range_text(range.min, range.max, Duration::zero(), Duration::max(), &duration_text);
  add_binding(std::move(name), std::move(binding), std::move(help));
}

void ConfigTable::add_size(std::string name, std::uint64_t* bytes, SizeRange range,
                           std::string help) {
  Binding binding;
  binding.set = ranged_setter(bytes, &parse_size, range.min, range.max);
  binding.text = [bytes] { return size_text(*bytes); };
  binding.type = "SIZE";
  binding.allowed = range_text(range.min, range.max, std::uint64_t{0},
                               std::numeric_limits<std::uint64_t>::max(), &size_text);
  add_binding(std::move(name), std::move(binding), std::move(help));
}

void ConfigTable::add_words(std::string name, std::vector<std::string> words,
                            std::function<void(std::size_t)> set, std::function<std::size_t()> get,
                            std::string help) {
  Binding binding;
  binding.type = fmt::format("{}", fmt::join(words, "|"));
  binding.allowed = fmt::format("one of {}", fmt::join(words, ", "));
  binding.text = [words, get = std::move(get)] { return words[get()]; };
  binding.set = [words, set = std::move(set)](std::string_view text) -> Result<void> {
    const auto found = std::find(words.begin(), words.end(), text);
    if (found == words.end()) return bad("not known");
    set(static_cast<std::size_t>(found - words.begin()));
    return ok();
  };
  add_binding(std::move(name), std::move(binding), std::move(help));
}

}  // namespace baton
