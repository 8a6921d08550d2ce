// How Python writes values: str(), repr() and json.dumps().
#pragma once

#include <optional>
#include <string>

#include "baton/base/result.h"
#include "baton/tokenizer/jinja/text.h"
#include "baton/tokenizer/jinja/value.h"

#include "interpreter.h"

namespace baton::tokenizer::jinja {

/// repr() of a float: the shortest digits that read back equal, with ".0" or an exponent.
std::string format_double(double value);

/// str(value); repr() of what is inside lists and dicts.
Result<void> write_text(Interpreter& interpreter, const Value& value, Text& out);

struct JsonStyle {
  bool ensure_ascii = false;
  std::optional<Text> indent;  ///< one level's
  Text item_separator;
  Text key_separator;
  bool sort_keys = false;
};

/// json.dumps(value).
Result<void> write_json(Interpreter& interpreter, const Value& value, const JsonStyle& style,
                        std::size_t level, Text& out);

}  // namespace baton::tokenizer::jinja
