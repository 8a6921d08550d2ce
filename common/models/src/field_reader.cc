#include "field_reader.h"

#include <fmt/format.h>

namespace baton::models {
namespace {

template <typename T>
Result<void> in_range(std::string_view key, T value, Range<T> range) {
  if (value >= range.low && value <= range.high) return ok();
  return modelfile::bad_field(
      key, fmt::format("is {}, expected {} to {}", value, range.low, range.high));
}

}  // namespace

Error FieldReader::bad(std::string_view name, std::string_view problem) const {
  return modelfile::bad_field(key(name), problem);
}

Result<std::optional<std::int64_t>> FieldReader::find_integer(std::string_view name,
                                                              Range<std::int64_t> range) const {
  BATON_ASSIGN(const auto found, metadata_.find_u32(key(name)));
  if (!found) return std::optional<std::int64_t>();
  const auto value = static_cast<std::int64_t>(*found);
  BATON_TRY(in_range(key(name), value, range));
  return std::optional(value);
}

Result<std::optional<std::int64_t>> FieldReader::find_uniform(std::string_view name,
                                                              Range<std::int64_t> range) const {
  const modelfile::MetadataEntry* entry = metadata_.find(key(name));
  if (entry == nullptr || entry->type != modelfile::ValueType::array) {
    return find_integer(name, range);
  }
  BATON_ASSIGN(const modelfile::IntArray values, metadata_.ints(key(name)));
  if (values.empty()) return bad(name, "is an empty array");
  for (std::size_t i = 0; i < values.size(); ++i) {
    BATON_TRY(in_range(key(name), values[i], range));
    if (values[i] != values[0]) return bad(name, "differs between layers, which is not supported");
  }
  return std::optional(values[0]);
}

Result<std::int64_t> FieldReader::integer(std::string_view name, Range<std::int64_t> range) const {
  BATON_ASSIGN(const auto found, find_integer(name, range));
  if (!found) return bad(name, "is missing");
  return *found;
}

Result<std::int64_t> FieldReader::integer_or(std::string_view name, std::int64_t missing,
                                             Range<std::int64_t> range) const {
  BATON_ASSIGN(const auto found, find_integer(name, range));
  return found.value_or(missing);
}

Result<std::optional<float>> FieldReader::find_real(std::string_view name,
                                                    Range<float> range) const {
  BATON_ASSIGN(const auto found, metadata_.find_f32(key(name)));
  if (found) BATON_TRY(in_range(key(name), *found, range));
  return found;
}

Result<float> FieldReader::real(std::string_view name, Range<float> range) const {
  BATON_ASSIGN(const auto found, find_real(name, range));
  if (!found) return bad(name, "is missing");
  return *found;
}

Result<float> FieldReader::real_or(std::string_view name, float missing, Range<float> range) const {
  BATON_ASSIGN(const auto found, find_real(name, range));
  return found.value_or(missing);
}

}  // namespace baton::models
