#include "baton/modelfile/metadata.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "baton/base/check.h"

#include "gguf_parser.h"

namespace baton::modelfile {
namespace {

template <typename T>
T load(std::span<const std::byte> bytes, std::size_t index) {
  BATON_CHECK(index < bytes.size() / sizeof(T));
  T value;
  std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));
  return value;
}

bool is_integer(ValueType type) {
  return type != ValueType::f32 && type != ValueType::f64 && type != ValueType::boolean &&
         type != ValueType::string && type != ValueType::array;
}

bool is_float(ValueType type) { return type == ValueType::f32 || type == ValueType::f64; }

// Booleans count as 0 and 1 (checked by the parser).
std::int64_t load_int(std::span<const std::byte> bytes, ValueType type, std::size_t index) {
  switch (type) {
    case ValueType::u8:
    case ValueType::boolean:
      return load<std::uint8_t>(bytes, index);
    case ValueType::i8:
      return load<std::int8_t>(bytes, index);
    case ValueType::u16:
      return load<std::uint16_t>(bytes, index);
    case ValueType::i16:
      return load<std::int16_t>(bytes, index);
    case ValueType::u32:
      return load<std::uint32_t>(bytes, index);
    case ValueType::i32:
      return load<std::int32_t>(bytes, index);
    case ValueType::u64:
      return static_cast<std::int64_t>(load<std::uint64_t>(bytes, index));
    case ValueType::i64:
      return load<std::int64_t>(bytes, index);
    case ValueType::f32:
    case ValueType::f64:
    case ValueType::string:
    case ValueType::array:
      break;
  }
  BATON_CHECK(false && "not an integer type");
}

float load_float(std::span<const std::byte> bytes, ValueType type, std::size_t index) {
  if (type == ValueType::f32) return load<float>(bytes, index);
  return static_cast<float>(load<double>(bytes, index));
}

std::string_view type_name(ValueType type) {
  constexpr std::string_view names[] = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                        "bool", "string", "array", "u64", "i64", "f64"};
  return names[static_cast<std::size_t>(type)];
}

std::string describe(const MetadataEntry& entry) {
  if (entry.type != ValueType::array) return std::string(type_name(entry.type));
  return "array of " + std::string(type_name(entry.element_type));
}

Error wrong_type(const MetadataEntry& entry, std::string_view wanted) {
  return bad_field(entry.key, "has type " + describe(entry) + ", expected " + std::string(wanted));
}

template <typename T>
Result<T> required(std::string_view key, Result<std::optional<T>> found) {
  if (found.has_error()) return found.error();
  if (!found->has_value()) return bad_field(key, "is missing");
  return std::move(**found);
}

Result<std::optional<std::uint64_t>> find_unsigned(const MetadataEntry* entry, std::uint64_t max) {
  if (entry == nullptr) return std::optional<std::uint64_t>();
  if (!is_integer(entry->type)) return wrong_type(*entry, "an integer");
  const std::int64_t value = load_int(entry->value, entry->type, 0);
  const bool negative = entry->type != ValueType::u64 && value < 0;
  if (negative || static_cast<std::uint64_t>(value) > max) {
    return bad_field(
        entry->key,
        "is out of range: " +
            (negative ? std::to_string(value) : std::to_string(static_cast<std::uint64_t>(value))));
  }
  return std::optional(static_cast<std::uint64_t>(value));
}

}  // namespace

std::int64_t IntArray::operator[](std::size_t index) const {
  return load_int(bytes_, type_, index);
}

float FloatArray::operator[](std::size_t index) const { return load_float(bytes_, type_, index); }

Metadata::Metadata(std::vector<MetadataEntry> entries) : entries_(std::move(entries)) {
  std::sort(entries_.begin(), entries_.end(),
            [](const MetadataEntry& a, const MetadataEntry& b) { return a.key < b.key; });
}

const MetadataEntry* Metadata::find(std::string_view key) const {
  const auto found = std::lower_bound(
      entries_.begin(), entries_.end(), key,
      [](const MetadataEntry& entry, std::string_view wanted) { return entry.key < wanted; });
  if (found == entries_.end() || found->key != key) return nullptr;
  return &*found;
}

Result<std::optional<std::uint64_t>> Metadata::find_u64(std::string_view key) const {
  return find_unsigned(find(key), std::numeric_limits<std::uint64_t>::max());
}

Result<std::optional<std::uint32_t>> Metadata::find_u32(std::string_view key) const {
  BATON_ASSIGN(const auto wide,
               find_unsigned(find(key), std::numeric_limits<std::uint32_t>::max()));
  if (!wide) return std::optional<std::uint32_t>();
  return std::optional(static_cast<std::uint32_t>(*wide));
}

Result<std::optional<float>> Metadata::find_f32(std::string_view key) const {
  const MetadataEntry* entry = find(key);
  if (entry == nullptr) return std::optional<float>();
  if (!is_float(entry->type)) return wrong_type(*entry, "a float");
  return std::optional(load_float(entry->value, entry->type, 0));
}

Result<std::optional<bool>> Metadata::find_boolean(std::string_view key) const {
  const MetadataEntry* entry = find(key);
  if (entry == nullptr) return std::optional<bool>();
  if (entry->type != ValueType::boolean) return wrong_type(*entry, "a bool");
  return std::optional(load<std::uint8_t>(entry->value, 0) != 0);
}

Result<std::optional<std::string_view>> Metadata::find_string(std::string_view key) const {
  const MetadataEntry* entry = find(key);
  if (entry == nullptr) return std::optional<std::string_view>();
  if (entry->type != ValueType::string) return wrong_type(*entry, "a string");
  return std::optional(*StringArray(entry->value, 1).begin());
}

Result<std::optional<StringArray>> Metadata::find_strings(std::string_view key) const {
  const MetadataEntry* entry = find(key);
  if (entry == nullptr) return std::optional<StringArray>();
  if (entry->type != ValueType::array || entry->element_type != ValueType::string) {
    return wrong_type(*entry, "an array of strings");
  }
  return std::optional(StringArray(entry->value, entry->count));
}

Result<std::optional<IntArray>> Metadata::find_ints(std::string_view key) const {
  const MetadataEntry* entry = find(key);
  if (entry == nullptr) return std::optional<IntArray>();
  const bool integral =
      is_integer(entry->element_type) || entry->element_type == ValueType::boolean;
  if (entry->type != ValueType::array || !integral) {
    return wrong_type(*entry, "an array of integers");
  }
  const IntArray array(entry->value, entry->element_type, entry->count);
  for (std::size_t i = 0; entry->element_type == ValueType::u64 && i < array.size(); ++i) {
    if (array[i] < 0) return bad_field(key, "is out of range at element " + std::to_string(i));
  }
  return std::optional(array);
}

Result<std::optional<FloatArray>> Metadata::find_floats(std::string_view key) const {
  const MetadataEntry* entry = find(key);
  if (entry == nullptr) return std::optional<FloatArray>();
  if (entry->type != ValueType::array || !is_float(entry->element_type)) {
    return wrong_type(*entry, "an array of floats");
  }
  return std::optional(FloatArray(entry->value, entry->element_type, entry->count));
}

Result<std::uint32_t> Metadata::u32(std::string_view key) const {
  return required(key, find_u32(key));
}
Result<std::uint64_t> Metadata::u64(std::string_view key) const {
  return required(key, find_u64(key));
}
Result<float> Metadata::f32(std::string_view key) const { return required(key, find_f32(key)); }
Result<bool> Metadata::boolean(std::string_view key) const {
  return required(key, find_boolean(key));
}
Result<std::string_view> Metadata::string(std::string_view key) const {
  return required(key, find_string(key));
}
Result<StringArray> Metadata::strings(std::string_view key) const {
  return required(key, find_strings(key));
}
Result<IntArray> Metadata::ints(std::string_view key) const {
  return required(key, find_ints(key));
}
Result<FloatArray> Metadata::floats(std::string_view key) const {
  return required(key, find_floats(key));
}

Error bad_field(std::string_view key, std::string_view problem) {
  return {Reason::bad_model_file,
          "metadata field '" + printable(key) + "' " + std::string(problem)};
}

std::string printable(std::string_view name) {
  constexpr std::size_t longest = 80;
  constexpr char hex[] = "0123456789abcdef";
  std::string out;
  for (const char c : name.substr(0, longest)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f) {
      out += c;
    } else {
      out += {'\\', 'x', hex[byte >> 4], hex[byte & 15]};
    }
  }
  if (name.size() > longest) out += "...";
  return out;
}

}  // namespace baton::modelfile
