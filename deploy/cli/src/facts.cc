#include "facts.h"

#include <boost/json.hpp>

namespace baton::cli {
namespace json = boost::json;

std::string_view text_at(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  return value != nullptr && value->is_string() ? std::string_view(value->as_string())
                                                : std::string_view();
}

std::int64_t integer_at(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  return value != nullptr && value->is_int64() ? value->as_int64() : 0;
}

double number_at(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  return value != nullptr && value->is_number() ? value->to_number<double>() : 0;
}

bool flag_at(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  return value != nullptr && value->is_bool() && value->as_bool();
}

const json::object& object_at(const json::object& object, std::string_view key) {
  static const json::object empty;
  const json::value* value = object.if_contains(key);
  return value != nullptr && value->is_object() ? value->as_object() : empty;
}

std::vector<json::object> objects_at(const json::object& object, std::string_view key) {
  std::vector<json::object> out;
  const json::value* value = object.if_contains(key);
  if (value == nullptr || !value->is_array()) return out;
  for (const json::value& each : value->as_array()) {
    if (each.is_object()) out.push_back(each.as_object());
  }
  return out;
}

std::vector<Pair> pairs_of(const json::object& worker_status) {
  std::vector<Pair> out;
  for (const json::object& pair : objects_at(worker_status, "pairs")) {
    out.push_back({std::string(text_at(pair, "node")), std::string(text_at(pair, "transport")),
                   std::string(text_at(pair, "why"))});
  }
  return out;
}

}  // namespace baton::cli
