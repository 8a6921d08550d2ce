#include "fields.h"

#include <cmath>

#include <boost/json/serialize.hpp>
#include <fmt/format.h>

namespace baton::router {

std::string clipped(std::string_view text, std::size_t most_bytes) {
  if (text.size() <= most_bytes) return std::string(text);
  const auto continues = [&](std::size_t at) {
    return (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80;
  };
  while (most_bytes > 0 && continues(most_bytes)) --most_bytes;
  return std::string(text.substr(0, most_bytes));
}

const boost::json::value* Fields::find(std::string_view name) {
  read_.emplace(name);
  const auto found = object_.find(name);
  if (found == object_.end() || found->value().is_null()) return nullptr;
  return &found->value();
}

void Fields::fail(std::string_view name, Reason reason, const std::string& message) {
  if (error_) return;
  error_ = ApiError{Error(reason, message), prefix_ + std::string(name)};
}

bool Fields::boolean(std::string_view name, bool fallback) {
  return find_boolean(name).value_or(fallback);
}

std::optional<bool> Fields::find_boolean(std::string_view name) {
  const boost::json::value* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_bool()) return value->as_bool();
  fail(name, Reason::invalid_request, fmt::format("{}{} must be true or false", prefix_, name));
  return std::nullopt;
}

std::optional<std::int64_t> Fields::integer(std::string_view name, std::int64_t min,
                                            std::int64_t max) {
  const boost::json::value* value = find(name);
  if (value == nullptr) return std::nullopt;
  boost::system::error_code error;
  const auto number = value->is_number() ? value->to_number<std::int64_t>(error) : 0;
  if (!value->is_number() || error || number < min || number > max) {
    fail(name, Reason::invalid_request,
         fmt::format("{}{} must be an integer from {} to {}", prefix_, name, min, max));
    return std::nullopt;
  }
  return number;
}

float Fields::number(std::string_view name, float fallback, float min, float max) {
  const boost::json::value* value = find(name);
  if (value == nullptr) return fallback;
  const double number = value->is_number() ? value->to_number<double>() : NAN;
  if (!(number >= static_cast<double>(min) && number <= static_cast<double>(max))) {
    fail(name, Reason::invalid_request,
         fmt::format("{}{} must be a number from {} to {}", prefix_, name, min, max));
    return fallback;
  }
  return static_cast<float>(number);
}

std::optional<std::string> Fields::string(std::string_view name) {
  const boost::json::value* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_string()) return std::string(value->as_string());
  fail(name, Reason::invalid_request, fmt::format("{}{} must be a string", prefix_, name));
  return std::nullopt;
}

void Fields::only(std::string_view name, const boost::json::value& accepted) {
  const boost::json::value* value = find(name);
  if (value == nullptr || *value == accepted) return;
  fail(
      name, Reason::unsupported_parameter,
      fmt::format("{}{} is only supported as {}", prefix_, name, boost::json::serialize(accepted)));
}

std::optional<ApiError> Fields::finish() {
  if (error_) return error_;
  for (const auto& [key, value] : object_) {
    if (read_.contains(std::string_view(key)) || value.is_null()) continue;
    constexpr std::size_t shown = 64;
    const std::string name = prefix_ + clipped(key, shown);
    return ApiError{Error(Reason::unsupported_parameter, "unsupported parameter: " + name), name};
  }
  return std::nullopt;
}

}  // namespace baton::router
