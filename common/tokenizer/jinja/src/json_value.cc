#include "baton/tokenizer/jinja/json_value.h"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/string.hpp>

namespace baton::tokenizer::jinja {

Value value_from_json(const boost::json::value& json, Origin origin) {
  const auto text = [origin](std::string_view bytes) {
    return Value::text(Text(std::string(bytes), origin));
  };
  switch (json.kind()) {
    case boost::json::kind::null:
      return Value::none();
    case boost::json::kind::bool_:
      return Value::boolean(json.get_bool());
    case boost::json::kind::int64:
      return Value::integer(json.get_int64());
    case boost::json::kind::uint64:
      return Value::floating(static_cast<double>(json.get_uint64()));
    case boost::json::kind::double_:
      return Value::floating(json.get_double());
    case boost::json::kind::string:
      return text({json.get_string().data(), json.get_string().size()});
    case boost::json::kind::array: {
      std::vector<Value> items;
      items.reserve(json.get_array().size());
      for (const boost::json::value& item : json.get_array()) {
        items.push_back(value_from_json(item, origin));
      }
      return Value::list(std::move(items));
    }
    case boost::json::kind::object: {
      std::vector<std::pair<Value, Value>> entries;
      entries.reserve(json.get_object().size());
      for (const auto& entry : json.get_object()) {
        entries.emplace_back(text({entry.key().data(), entry.key().size()}),
                             value_from_json(entry.value(), origin));
      }
      return Value::dict(std::move(entries));
    }
  }
  return Value::none();
}

}  // namespace baton::tokenizer::jinja
