// Writes small GGUF files for tests: metadata of every type, tensors of every element type. It
// writes what it is told, wrong things too, so that the reader's refusals can be tested.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "baton/modelfile/arrays.h"
#include "baton/modelfile/ggml_type.h"

namespace baton::test {

/// Fields and tensors appear in the file in the order of the calls. Every method returns *this.
class GgufWriter {
 public:
  GgufWriter& version(std::uint32_t version);
  /// Writes `general.alignment` and pads to it.
  GgufWriter& alignment(std::uint32_t alignment_bytes);

  GgufWriter& add_u32(std::string_view key, std::uint32_t value);
  GgufWriter& add_i32(std::string_view key, std::int32_t value);
  GgufWriter& add_u64(std::string_view key, std::uint64_t value);
  GgufWriter& add_f32(std::string_view key, float value);
  GgufWriter& add_bool(std::string_view key, bool value);
  GgufWriter& add_string(std::string_view key, std::string_view value);
  GgufWriter& add_strings(std::string_view key, const std::vector<std::string>& values);
  GgufWriter& add_i32s(std::string_view key, const std::vector<std::int32_t>& values);
  GgufWriter& add_f32s(std::string_view key, const std::vector<float>& values);
  GgufWriter& add_bools(std::string_view key, const std::vector<bool>& values);
  /// Any type number and any bytes, as they should lie in the file after the type.
  GgufWriter& add_raw(std::string_view key, std::uint32_t type, std::span<const std::byte> value);

  /// dims[0] is the row length. `data` is as many bytes as the type and shape need (not checked).
  GgufWriter& add_tensor(std::string_view name, modelfile::GgmlType type,
                         std::vector<std::uint64_t> dims, std::vector<std::byte> data);
  GgufWriter& add_f32_tensor(std::string_view name, std::vector<std::uint64_t> dims,
                             std::span<const float> values);
  /// A table entry as given, without data of its own: any type number, dims and offset.
  GgufWriter& add_raw_tensor(std::string_view name, std::uint32_t type,
                             std::vector<std::uint64_t> dims, std::uint64_t offset_bytes);

  std::vector<std::byte> bytes() const;
  void write(const std::filesystem::path& path) const;

 private:
  struct Tensor {
    std::string name;
    std::uint32_t type;
    std::vector<std::uint64_t> dims;
    std::vector<std::byte> data;
    bool placed;  // the offset was given
    std::uint64_t offset_bytes;
  };

  void begin_field(std::string_view key, modelfile::ValueType type);
  void begin_array(std::string_view key, modelfile::ValueType element_type, std::uint64_t count);

  std::uint32_t version_ = 3;
  std::uint32_t alignment_bytes_ = 32;
  std::uint64_t field_count_ = 0;
  std::vector<std::byte> fields_;
  std::vector<Tensor> tensors_;
};

/// A value's bytes as they lie in a file, for add_raw.
template <typename T>
std::vector<std::byte> raw_bytes(std::initializer_list<T> values) {
  const auto view = std::as_bytes(std::span(values.begin(), values.size()));
  return {view.begin(), view.end()};
}

}  // namespace baton::test
