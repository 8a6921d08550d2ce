// Typed metadata of a model file. Values are read from the mapped file when they are asked for.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "baton/base/result.h"
#include "baton/modelfile/arrays.h"

namespace baton::modelfile {

/// One field as stored. `value` is its checked bytes without type and count: for digests and for
/// the getters below.
struct MetadataEntry {
  std::string_view key;
  ValueType type = ValueType::u8;
  ValueType element_type = ValueType::u8;  ///< of an array; equal to `type` otherwise
  std::uint64_t count = 1;                 ///< elements of an array, 1 otherwise
  std::span<const std::byte> value;
};

/// Getters come in two forms. `u32(key)` fails with bad_model_file when the field is missing, has
/// another kind of type, or does not fit; `find_u32(key)` gives nothing when it is missing and
/// fails in the other cases. Integers of any stored width are accepted where the value fits; floats
/// are f32 or f64. Each message is one line that names the field.
class Metadata {
 public:
  Metadata() = default;
  /// Keys are unique (the parser refuses others).
  explicit Metadata(std::vector<MetadataEntry> entries);

  bool contains(std::string_view key) const { return find(key) != nullptr; }
  const MetadataEntry* find(std::string_view key) const;
  /// All fields, in ascending order of key.
  std::span<const MetadataEntry> entries() const { return entries_; }

  Result<std::uint32_t> u32(std::string_view key) const;
  Result<std::uint64_t> u64(std::string_view key) const;
  Result<float> f32(std::string_view key) const;
  Result<bool> boolean(std::string_view key) const;
  Result<std::string_view> string(std::string_view key) const;
  Result<StringArray> strings(std::string_view key) const;
  Result<IntArray> ints(std::string_view key) const;
  Result<FloatArray> floats(std::string_view key) const;

  Result<std::optional<std::uint32_t>> find_u32(std::string_view key) const;
  Result<std::optional<std::uint64_t>> find_u64(std::string_view key) const;
  Result<std::optional<float>> find_f32(std::string_view key) const;
  Result<std::optional<bool>> find_boolean(std::string_view key) const;
  Result<std::optional<std::string_view>> find_string(std::string_view key) const;
  Result<std::optional<StringArray>> find_strings(std::string_view key) const;
  Result<std::optional<IntArray>> find_ints(std::string_view key) const;
  Result<std::optional<FloatArray>> find_floats(std::string_view key) const;

 private:
  std::vector<MetadataEntry> entries_;
};

/// The error that a consumer of metadata gives for a value that is well-formed but not usable:
/// "metadata field 'llama.block_count': <problem>".
Error bad_field(std::string_view key, std::string_view problem);

/// A name from a file, made safe for one line of an error: control and non-ASCII bytes escaped, cut
/// after 80 bytes.
std::string printable(std::string_view name);

}  // namespace baton::modelfile
