#include "support/gguf/gguf_writer.h"

#include <fstream>
#include <stdexcept>
#include <utility>

namespace baton::test {
namespace {

using modelfile::GgmlType;
using modelfile::ValueType;

void append(std::vector<std::byte>& out, std::span<const std::byte> bytes) {
  out.insert(out.end(), bytes.begin(), bytes.end());
}

template <typename T>
void append_value(std::vector<std::byte>& out, T value) {
  append(out, std::as_bytes(std::span(&value, 1)));
}

void append_string(std::vector<std::byte>& out, std::string_view text) {
  append_value<std::uint64_t>(out, text.size());
  append(out, std::as_bytes(std::span(text)));
}

void pad(std::vector<std::byte>& out, std::uint64_t alignment_bytes) {
  while (out.size() % alignment_bytes != 0) out.push_back(std::byte{0});
}

}  // namespace

GgufWriter& GgufWriter::version(std::uint32_t version) {
  version_ = version;
  return *this;
}

GgufWriter& GgufWriter::alignment(std::uint32_t alignment_bytes) {
  alignment_bytes_ = alignment_bytes;
  return add_u32("general.alignment", alignment_bytes);
}

void GgufWriter::begin_field(std::string_view key, ValueType type) {
  ++field_count_;
  append_string(fields_, key);
  append_value(fields_, static_cast<std::uint32_t>(type));
}

void GgufWriter::begin_array(std::string_view key, ValueType element_type, std::uint64_t count) {
  begin_field(key, ValueType::array);
  append_value(fields_, static_cast<std::uint32_t>(element_type));
  append_value(fields_, count);
}

GgufWriter& GgufWriter::add_u32(std::string_view key, std::uint32_t value) {
  begin_field(key, ValueType::u32);
  append_value(fields_, value);
  return *this;
}

GgufWriter& GgufWriter::add_i32(std::string_view key, std::int32_t value) {
  begin_field(key, ValueType::i32);
  append_value(fields_, value);
  return *this;
}

GgufWriter& GgufWriter::add_u64(std::string_view key, std::uint64_t value) {
  begin_field(key, ValueType::u64);
  append_value(fields_, value);
  return *this;
}

GgufWriter& GgufWriter::add_f32(std::string_view key, float value) {
  begin_field(key, ValueType::f32);
  append_value(fields_, value);
  return *this;
}

GgufWriter& GgufWriter::add_bool(std::string_view key, bool value) {
  begin_field(key, ValueType::boolean);
  append_value<std::uint8_t>(fields_, value ? 1 : 0);
  return *this;
}

GgufWriter& GgufWriter::add_string(std::string_view key, std::string_view value) {
  begin_field(key, ValueType::string);
  append_string(fields_, value);
  return *this;
}

GgufWriter& GgufWriter::add_strings(std::string_view key, const std::vector<std::string>& values) {
  begin_array(key, ValueType::string, values.size());
  for (const std::string& value : values) append_string(fields_, value);
  return *this;
}

GgufWriter& GgufWriter::add_i32s(std::string_view key, const std::vector<std::int32_t>& values) {
  begin_array(key, ValueType::i32, values.size());
  append(fields_, std::as_bytes(std::span(values)));
  return *this;
}

GgufWriter& GgufWriter::add_f32s(std::string_view key, const std::vector<float>& values) {
  begin_array(key, ValueType::f32, values.size());
  append(fields_, std::as_bytes(std::span(values)));
  return *this;
}

GgufWriter& GgufWriter::add_bools(std::string_view key, const std::vector<bool>& values) {
  begin_array(key, ValueType::boolean, values.size());
  for (const bool value : values) append_value<std::uint8_t>(fields_, value ? 1 : 0);
  return *this;
}

GgufWriter& GgufWriter::add_raw(std::string_view key, std::uint32_t type,
                                std::span<const std::byte> value) {
  begin_field(key, static_cast<ValueType>(type));
  append(fields_, value);
  return *this;
}

GgufWriter& GgufWriter::add_tensor(std::string_view name, GgmlType type,
                                   std::vector<std::uint64_t> dims, std::vector<std::byte> data) {
  tensors_.push_back({std::string(name), static_cast<std::uint32_t>(type), std::move(dims),
                      std::move(data), false, 0});
  return *this;
}

GgufWriter& GgufWriter::add_f32_tensor(std::string_view name, std::vector<std::uint64_t> dims,
                                       std::span<const float> values) {
  const auto data = std::as_bytes(values);
  return add_tensor(name, GgmlType::f32, std::move(dims), {data.begin(), data.end()});
}

GgufWriter& GgufWriter::add_raw_tensor(std::string_view name, std::uint32_t type,
                                       std::vector<std::uint64_t> dims,
                                       std::uint64_t offset_bytes) {
  tensors_.push_back({std::string(name), type, std::move(dims), {}, true, offset_bytes});
  return *this;
}

std::vector<std::byte> GgufWriter::bytes() const {
  std::vector<std::byte> out;
  append(out, std::as_bytes(std::span(std::string_view("GGUF"))));
  append_value(out, version_);
  append_value<std::uint64_t>(out, tensors_.size());
  append_value(out, field_count_);
  append(out, fields_);
  std::vector<std::byte> data;
  for (const Tensor& tensor : tensors_) {
    pad(data, alignment_bytes_);
    append_string(out, tensor.name);
    append_value(out, static_cast<std::uint32_t>(tensor.dims.size()));
    for (const std::uint64_t dim : tensor.dims) append_value(out, dim);
    append_value(out, tensor.type);
    append_value<std::uint64_t>(out, tensor.placed ? tensor.offset_bytes : data.size());
    append(data, tensor.data);
  }
  pad(out, alignment_bytes_);
  append(out, data);
  return out;
}

void GgufWriter::write(const std::filesystem::path& path) const {
  const std::vector<std::byte> all = bytes();
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(all.data()), static_cast<std::streamsize>(all.size()));
  out.close();
  if (!out) throw std::runtime_error("cannot write " + path.string());
}

}  // namespace baton::test
