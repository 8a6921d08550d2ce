// Reading a JSON object field by field: what was not read by the end is an unsupported parameter.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

#include "baton/router/api/request.h"

namespace baton::router {

/// Holds the first error; after it every read gives the fallback.
class Fields {
 public:
  /// `prefix` stands before names in errors ("stream_options.").
  Fields(const boost::json::object& object, std::string prefix)
      : object_(object), prefix_(std::move(prefix)) {}

  /// The value, or nullptr when absent or null.
  const boost::json::value* find(std::string_view name);

  bool boolean(std::string_view name, bool fallback);
  std::optional<bool> find_boolean(std::string_view name);
  std::optional<std::int64_t> integer(std::string_view name, std::int64_t min, std::int64_t max);
  float number(std::string_view name, float fallback, float min, float max);
  std::optional<std::string> string(std::string_view name);

  /// Accepts only what means "the default"; anything else is refused as unsupported.
  void only(std::string_view name, const boost::json::value& accepted);

  void fail(std::string_view name, Reason reason, const std::string& message);
  /// The first error, or an unsupported parameter for a field that nothing read.
  std::optional<ApiError> finish();
  bool failed() const { return error_.has_value(); }

 private:
  const boost::json::object& object_;
  std::string prefix_;
  std::set<std::string, std::less<>> read_;
  std::optional<ApiError> error_;
};

}  // namespace baton::router
