// Tables of filters, one for each subject; apply_filter() looks through all of them.
#pragma once

#include <span>
#include <string_view>

#include "interpreter.h"

namespace baton::tokenizer::jinja {

using Filter = Result<Value> (*)(Interpreter&, const Value& input, const Arguments&);
struct NamedFilter {
  std::string_view name;
  Filter apply;
};

std::span<const NamedFilter> text_filters();       // filters_text.cc
std::span<const NamedFilter> value_filters();      // filters_value.cc
std::span<const NamedFilter> sequence_filters();   // filters_sequence.cc
std::span<const NamedFilter> selection_filters();  // filters_selection.cc

/// What `attribute='a.b.0'` reads from an item.
Result<Value> attribute_path(Interpreter& interpreter, const Value& item, const Value& path);

}  // namespace baton::tokenizer::jinja
