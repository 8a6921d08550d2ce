// Element types of tensors in a GGUF file: what is stored, how many bytes, nothing computed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace baton::modelfile {

/// The types that Baton loads; the numbers are those of the file. Every other type of the format is
/// refused by name when a file is opened.
enum class GgmlType : std::uint32_t {
  f32 = 0,
  f16 = 1,
  q4_0 = 2,
  q4_1 = 3,
  q5_0 = 6,
  q5_1 = 7,
  q8_0 = 8,
  q4_k = 12,
  q5_k = 13,
  q6_k = 14,
  bf16 = 30,
};

/// A row is stored as blocks of `block_elements` elements in `block_bytes` bytes each.
struct GgmlTypeInfo {
  GgmlType type;
  std::string_view name;  ///< as llama.cpp prints it, e.g. "Q4_1"
  std::uint32_t block_elements;
  std::uint32_t block_bytes;
};

const GgmlTypeInfo& info(GgmlType type);

/// The type with this number in the file; nothing when Baton does not load it.
std::optional<GgmlType> ggml_type_from_number(std::uint32_t number);

/// Name of any type number, also of types that are refused; "type 77" for an unknown number.
std::string ggml_type_name(std::uint32_t number);

}  // namespace baton::modelfile
