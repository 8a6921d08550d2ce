#include "config_values.h"

#include <array>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

namespace baton {
namespace {

template <typename Factor>
struct Unit {
  std::string_view name;
  Factor factor;
};

constexpr std::array duration_units = {
    Unit<std::int64_t>{"ns", 1},
    Unit<std::int64_t>{"us", 1'000},
    Unit<std::int64_t>{"ms", 1'000'000},
    Unit<std::int64_t>{"s", 1'000'000'000},
    Unit<std::int64_t>{"m", 60'000'000'000},
    Unit<std::int64_t>{"h", 3'600'000'000'000},
};

constexpr std::array size_units = {
    Unit<std::uint64_t>{"", 1},
    Unit<std::uint64_t>{"KiB", std::uint64_t{1} << 10},
    Unit<std::uint64_t>{"MiB", std::uint64_t{1} << 20},
    Unit<std::uint64_t>{"GiB", std::uint64_t{1} << 30},
    Unit<std::uint64_t>{"TiB", std::uint64_t{1} << 40},
};

Error bad(std::string_view what) { return Error(Reason::bad_config, std::string(what)); }

template <typename T>
bool parse_all(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return !text.empty() && error == std::errc() && end == text.data() + text.size();
}

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

/// "12ms" → 12 × factor("ms"); overflow and unknown units are refused.
template <typename T, std::size_t N>
Result<T> parse_with_unit(std::string_view text, const std::array<Unit<T>, N>& units,
                          std::string_view default_unit, std::string_view what) {
  const std::size_t digits = text.find_first_not_of("0123456789");
  T count = 0;
  if (!parse_all(text.substr(0, digits), count)) return bad(what);
  const std::string_view name =
      digits == std::string_view::npos ? default_unit : text.substr(digits);
  for (const auto& unit : units) {
    if (unit.name != name) continue;
    T value = 0;
    if (__builtin_mul_overflow(count, unit.factor, &value)) return bad("the number is too large");
    return value;
  }
  return bad(what);
}

/// With the largest unit that divides it, so that it parses back to the same value.
template <typename T, std::size_t N>
std::string text_with_unit(T value, const std::array<Unit<T>, N>& units) {
  std::size_t best = 0;
  for (std::size_t i = 0; i < N; ++i) {
    if (value % units[i].factor == 0) best = i;
  }
  return fmt::format("{}{}", value / units[best].factor, units[best].name);
}

}  // namespace

Result<bool> parse_bool(std::string_view text) {
  if (text == "true" || text == "1") return true;
  if (text == "false" || text == "0") return false;
  return bad("neither true nor false");
}

Result<std::int64_t> parse_integer(std::string_view text) {
  std::int64_t value = 0;
  if (!parse_all(text, value)) return bad("not a whole number");
  return value;
}

Result<double> parse_real(std::string_view text) {
  double value = 0;
  if (!parse_all(text, value) || !std::isfinite(value)) return bad("not a number");
  return value;
}

Result<Duration> parse_duration(std::string_view text) {
  BATON_ASSIGN(const std::int64_t count,
               parse_with_unit(text, duration_units, "ms",
                               "not a duration such as 250us, 100ms, 5s, 2m or 1h"));
  return Duration(count);
}

Result<std::uint64_t> parse_size(std::string_view text) {
  return parse_with_unit(text, size_units, "", "not a size such as 4096, 256KiB, 4MiB or 2GiB");
}

Result<std::vector<std::string>> parse_list(std::string_view text) {
  std::vector<std::string> items;
  if (trimmed(text).empty()) return items;
  for (;;) {
    const std::size_t comma = text.find(',');
    const std::string_view item = trimmed(text.substr(0, comma));
    if (item.empty()) return bad("an empty item in the list");
    items.emplace_back(item);
    if (comma == std::string_view::npos) return items;
    text.remove_prefix(comma + 1);
  }
}

std::string duration_text(Duration duration) {
  // Zero is divisible by everything; "0h" would be odd to read.
  if (duration == Duration::zero()) return "0ms";
  return text_with_unit<std::int64_t>(duration.count(), duration_units);
}

std::string size_text(std::uint64_t bytes) {
  return bytes == 0 ? "0" : text_with_unit<std::uint64_t>(bytes, size_units);
}

std::string list_text(const std::vector<std::string>& items) {
  return fmt::format("{}", fmt::join(items, ","));
}

}  // namespace baton
