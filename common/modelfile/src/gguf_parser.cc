#include "gguf_parser.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <string>

#include "cursor.h"

namespace baton::modelfile {
namespace {

constexpr std::uint32_t magic_number = 0x46554747;  // "GGUF"
constexpr std::size_t longest_key_bytes = 65'535;   // the format's own limit
constexpr std::size_t longest_tensor_name_bytes = 64;
constexpr std::uint32_t most_dims = 4;
constexpr std::uint32_t default_alignment_bytes = 32;
constexpr std::uint32_t largest_alignment_bytes = 1U << 20;
// Far above any real model, and low enough that the tables of a hostile file stay small (R7).
constexpr std::uint64_t most_fields = 65'536;
constexpr std::uint64_t most_tensors = 262'144;
// Fewest bytes in the file of one field (length, 1 byte of key, type, 1 byte of value) and of one
// tensor (length, 1 byte of name, n_dims, 1 dim, type, offset).
constexpr std::uint64_t smallest_field_bytes = 8 + 1 + 4 + 1;
constexpr std::uint64_t smallest_tensor_bytes = 8 + 1 + 4 + 8 + 4 + 8;

Error bad_file(std::string message) { return {Reason::bad_model_file, std::move(message)}; }

Error bad_tensor(std::string_view name, std::string_view problem) {
  return bad_file("tensor '" + printable(name) + "' " + std::string(problem));
}

std::optional<std::uint64_t> checked_multiply(std::uint64_t a, std::uint64_t b) {
  std::uint64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

class Parser {
 public:
  explicit Parser(std::span<const std::byte> bytes) : bytes_(bytes), cursor_(bytes) {}

  Result<ParsedGguf> parse() {
    BATON_TRY(header());
    BATON_TRY(fields());
    BATON_TRY(alignment());
    BATON_TRY(tensor_table());
    BATON_TRY(place_tensors());
    BATON_TRY(index_names());
    BATON_TRY(check_overlaps());
    return std::move(out_);
  }

 private:
  Result<void> header();
  Result<void> fields();
  Result<MetadataEntry> field(std::uint64_t index);
  Result<void> field_value(MetadataEntry& entry);
  Result<void> array_value(MetadataEntry& entry);
  Result<void> check_booleans(const MetadataEntry& entry);
  Result<void> alignment();
  Result<void> tensor_table();
  Result<TensorInfo> tensor(std::uint64_t index);
  Result<void> tensor_shape(TensorInfo& tensor);
  Result<void> tensor_size(TensorInfo& tensor);
  Result<void> place_tensors();
  Result<void> index_names();
  Result<void> check_overlaps();

  std::span<const std::byte> bytes_;
  Cursor cursor_;
  std::uint64_t field_count_ = 0;
  std::uint64_t tensor_count_ = 0;
  ParsedGguf out_;
};

Result<void> Parser::header() {
  const auto magic = cursor_.value<std::uint32_t>();
  if (magic != magic_number) return bad_file("not a GGUF file (its first bytes are not 'GGUF')");
  const auto version = cursor_.value<std::uint32_t>();
  if (!version) return bad_file("the file ends inside the header");
  if (*version != 0 && (*version & 0xffff) == 0)
    return bad_file("big-endian GGUF is not supported");
  if (*version != 2 && *version != 3) {
    return bad_file("GGUF version " + std::to_string(*version) + " is not supported (2 and 3 are)");
  }
  const auto tensor_count = cursor_.value<std::uint64_t>();
  const auto field_count = cursor_.value<std::uint64_t>();
  if (!tensor_count || !field_count) return bad_file("the file ends inside the header");
  if (*field_count > std::min(most_fields, cursor_.remaining() / smallest_field_bytes)) {
    return bad_file("the metadata field count " + std::to_string(*field_count) +
                    " is more than the file can hold");
  }
  if (*tensor_count > std::min(most_tensors, cursor_.remaining() / smallest_tensor_bytes)) {
    return bad_file("the tensor count " + std::to_string(*tensor_count) +
                    " is more than the file can hold");
  }
  out_.version = *version;
  field_count_ = *field_count;
  tensor_count_ = *tensor_count;
  return ok();
}

Result<void> Parser::fields() {
  out_.fields.reserve(field_count_);
  for (std::uint64_t i = 0; i < field_count_; ++i) {
    BATON_ASSIGN(const MetadataEntry entry, field(i));
    out_.fields.push_back(entry);
  }
  std::vector<std::string_view> keys;
  keys.reserve(out_.fields.size());
  for (const MetadataEntry& entry : out_.fields) keys.push_back(entry.key);
  std::sort(keys.begin(), keys.end());
  const auto twin = std::adjacent_find(keys.begin(), keys.end());
  if (twin != keys.end()) return bad_field(*twin, "appears twice");
  return ok();
}

Result<MetadataEntry> Parser::field(std::uint64_t index) {
  const std::string place = "metadata field number " + std::to_string(index);
  MetadataEntry entry;
  const auto key = cursor_.string();
  if (!key) return bad_file(place + ": the file ends inside its key");
  if (key->empty()) return bad_file(place + " has an empty key");
  if (key->size() > longest_key_bytes) return bad_field(*key, "has a key of more than 65535 bytes");
  entry.key = *key;
  const auto type = cursor_.value<std::uint32_t>();
  if (!type) return bad_field(entry.key, "is cut off by the end of the file");
  if (*type > static_cast<std::uint32_t>(ValueType::f64)) {
    return bad_field(entry.key, "has the unknown value type " + std::to_string(*type));
  }
  entry.type = static_cast<ValueType>(*type);
  entry.element_type = entry.type;
  BATON_TRY(field_value(entry));
  return entry;
}

Result<void> Parser::field_value(MetadataEntry& entry) {
  if (entry.type == ValueType::array) return array_value(entry);
  const std::size_t start = cursor_.position();
  const bool complete = entry.type == ValueType::string
                            ? cursor_.string().has_value()
                            : cursor_.take(fixed_size_bytes(entry.type)).has_value();
  if (!complete) return bad_field(entry.key, "is longer than the rest of the file");
  entry.value = bytes_.subspan(start, cursor_.position() - start);
  return check_booleans(entry);
}

Result<void> Parser::array_value(MetadataEntry& entry) {
  const auto element_type = cursor_.value<std::uint32_t>();
  const auto count = cursor_.value<std::uint64_t>();
  if (!element_type || !count) return bad_field(entry.key, "is cut off by the end of the file");
  if (*element_type > static_cast<std::uint32_t>(ValueType::f64)) {
    return bad_field(entry.key,
                     "has the unknown array element type " + std::to_string(*element_type));
  }
  entry.element_type = static_cast<ValueType>(*element_type);
  entry.count = *count;
  if (entry.element_type == ValueType::array) {
    return bad_field(entry.key, "is an array of arrays, which no model needs");
  }
  const std::size_t start = cursor_.position();
  const Error too_long = bad_field(
      entry.key, "has " + std::to_string(*count) + " elements, more than the file can hold");
  if (entry.element_type == ValueType::string) {
    if (*count > cursor_.remaining() / sizeof(std::uint64_t)) return too_long;
    for (std::uint64_t i = 0; i < *count; ++i) {
      if (!cursor_.string()) {
        return bad_field(entry.key, "has a string, element " + std::to_string(i) +
                                        ", that is longer than the rest of the file");
      }
    }
  } else {
    const auto size_bytes = checked_multiply(*count, fixed_size_bytes(entry.element_type));
    if (!size_bytes || !cursor_.take(*size_bytes)) return too_long;
  }
  entry.value = bytes_.subspan(start, cursor_.position() - start);
  return check_booleans(entry);
}

Result<void> Parser::check_booleans(const MetadataEntry& entry) {
  if (entry.element_type != ValueType::boolean) return ok();
  const bool valid = std::all_of(entry.value.begin(), entry.value.end(),
                                 [](std::byte b) { return b <= std::byte{1}; });
  if (!valid) return bad_field(entry.key, "is a bool that is neither 0 nor 1");
  return ok();
}

Result<void> Parser::alignment() {
  constexpr std::string_view key = "general.alignment";
  BATON_ASSIGN(const auto stored, Metadata(out_.fields).find_u32(key));
  const std::uint32_t alignment_bytes = stored.value_or(default_alignment_bytes);
  const bool power_of_two = (alignment_bytes & (alignment_bytes - 1)) == 0;
  if (alignment_bytes < 8 || !power_of_two || alignment_bytes > largest_alignment_bytes) {
    return bad_field(
        key, "is " + std::to_string(alignment_bytes) + ", not a power of two from 8 to 1048576");
  }
  out_.alignment_bytes = alignment_bytes;
  return ok();
}

Result<void> Parser::tensor_table() {
  out_.tensors.reserve(tensor_count_);
  for (std::uint64_t i = 0; i < tensor_count_; ++i) {
    BATON_ASSIGN(const TensorInfo entry, tensor(i));
    out_.tensors.push_back(entry);
  }
  return ok();
}

Result<TensorInfo> Parser::tensor(std::uint64_t index) {
  const std::string place = "tensor number " + std::to_string(index);
  TensorInfo tensor;
  const auto name = cursor_.string();
  if (!name) return bad_file(place + ": the file ends inside its name");
  if (name->empty()) return bad_file(place + " has an empty name");
  if (name->size() > longest_tensor_name_bytes) {
    return bad_tensor(*name, "has a name of more than 64 bytes");
  }
  tensor.name = *name;
  BATON_TRY(tensor_shape(tensor));
  const auto type = cursor_.value<std::uint32_t>();
  const auto offset = cursor_.value<std::uint64_t>();
  if (!type || !offset) return bad_tensor(tensor.name, "is cut off by the end of the file");
  const auto loaded = ggml_type_from_number(*type);
  if (!loaded) {
    return bad_tensor(tensor.name,
                      "has the element type " + ggml_type_name(*type) + ", which is not supported");
  }
  tensor.type = *loaded;
  tensor.offset_bytes = *offset;  // from the start of the data section until place_tensors()
  BATON_TRY(tensor_size(tensor));
  return tensor;
}

Result<void> Parser::tensor_shape(TensorInfo& tensor) {
  const auto n_dims = cursor_.value<std::uint32_t>();
  if (!n_dims) return bad_tensor(tensor.name, "is cut off by the end of the file");
  if (*n_dims < 1 || *n_dims > most_dims) {
    return bad_tensor(tensor.name,
                      "has " + std::to_string(*n_dims) + " dimensions, allowed are 1 to 4");
  }
  tensor.n_dims = *n_dims;
  for (std::uint32_t i = 0; i < *n_dims; ++i) {
    const auto dim = cursor_.value<std::uint64_t>();
    if (!dim) return bad_tensor(tensor.name, "is cut off by the end of the file");
    if (*dim == 0) {
      return bad_tensor(tensor.name, "has the size 0 in dimension " + std::to_string(i));
    }
    tensor.dims[i] = *dim;
  }
  return ok();
}

Result<void> Parser::tensor_size(TensorInfo& tensor) {
  const GgmlTypeInfo& type = info(tensor.type);
  if (tensor.dims[0] % type.block_elements != 0) {
    return bad_tensor(tensor.name, "has rows of " + std::to_string(tensor.dims[0]) +
                                       " elements, no multiple of the block of " +
                                       std::string(type.name));
  }
  // The element count must fit as well, since TensorInfo::elements() multiplies unchecked.
  std::optional<std::uint64_t> elements = tensor.dims[0];
  for (std::size_t i = 1; i < most_dims && elements; ++i) {
    elements = checked_multiply(*elements, tensor.dims[i]);
  }
  std::optional<std::uint64_t> size_bytes;
  if (elements) size_bytes = checked_multiply(*elements / type.block_elements, type.block_bytes);
  if (!size_bytes || *size_bytes > bytes_.size()) {
    return bad_tensor(tensor.name, "has a shape larger than the file");
  }
  tensor.size_bytes = *size_bytes;
  return ok();
}

Result<void> Parser::place_tensors() {
  // No overflow: position ≤ file size < 2^63 and the alignment is ≤ 2^20.
  const std::uint64_t mask = out_.alignment_bytes - 1;
  const std::uint64_t data_start = (cursor_.position() + mask) & ~mask;
  for (TensorInfo& tensor : out_.tensors) {
    if ((tensor.offset_bytes & mask) != 0) {
      return bad_tensor(tensor.name, "has the offset " + std::to_string(tensor.offset_bytes) +
                                         ", not aligned to " +
                                         std::to_string(out_.alignment_bytes));
    }
    const bool inside = data_start <= bytes_.size() &&
                        tensor.offset_bytes <= bytes_.size() - data_start &&
                        tensor.size_bytes <= bytes_.size() - data_start - tensor.offset_bytes;
    if (!inside) return bad_tensor(tensor.name, "ends beyond the end of the file");
    tensor.offset_bytes += data_start;
  }
  return ok();
}

Result<void> Parser::index_names() {
  const std::vector<TensorInfo>& tensors = out_.tensors;
  std::vector<std::uint32_t>& order = out_.by_name;
  order.resize(tensors.size());
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(),
            [&](std::uint32_t a, std::uint32_t b) { return tensors[a].name < tensors[b].name; });
  const auto twin = std::adjacent_find(
      order.begin(), order.end(),
      [&](std::uint32_t a, std::uint32_t b) { return tensors[a].name == tensors[b].name; });
  if (twin != order.end()) return bad_tensor(tensors[*twin].name, "appears twice");
  return ok();
}

Result<void> Parser::check_overlaps() {
  const std::vector<TensorInfo>& tensors = out_.tensors;
  std::vector<std::uint32_t> order = out_.by_name;
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return tensors[a].offset_bytes < tensors[b].offset_bytes;
  });
  for (std::size_t i = 1; i < order.size(); ++i) {
    const TensorInfo& before = tensors[order[i - 1]];
    const TensorInfo& after = tensors[order[i]];
    if (before.offset_bytes + before.size_bytes > after.offset_bytes) {
      return bad_tensor(after.name, "overlaps tensor '" + printable(before.name) + "'");
    }
  }
  return ok();
}

}  // namespace

std::size_t fixed_size_bytes(ValueType type) {
  switch (type) {
    case ValueType::u8:
    case ValueType::i8:
    case ValueType::boolean:
      return 1;
    case ValueType::u16:
    case ValueType::i16:
      return 2;
    case ValueType::u32:
    case ValueType::i32:
    case ValueType::f32:
      return 4;
    case ValueType::u64:
    case ValueType::i64:
    case ValueType::f64:
      return 8;
    case ValueType::string:
    case ValueType::array:
      return 0;
  }
  return 0;
}

Result<ParsedGguf> parse_gguf(std::span<const std::byte> bytes) { return Parser(bytes).parse(); }

}  // namespace baton::modelfile
