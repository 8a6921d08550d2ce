// JSON as values of the template language.
#pragma once

#include <boost/json/value.hpp>

#include "baton/tokenizer/jinja/value.h"

namespace baton::tokenizer::jinja {

/// Every string in it, keys too, gets this origin. Integers beyond int64 become floats. Recursive:
/// the nesting of `json` is bounded by whoever parsed it.
Value value_from_json(const boost::json::value& json, Origin origin);

}  // namespace baton::tokenizer::jinja
