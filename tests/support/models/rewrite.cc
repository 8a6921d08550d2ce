#include "support/models/rewrite.h"

#include <cstring>

#include "baton/base/check.h"

namespace baton::test {
namespace {

/// A field's bytes as they lie in the file behind its type.
std::vector<std::byte> stored(const modelfile::MetadataEntry& entry) {
  std::vector<std::byte> bytes;
  if (entry.type == modelfile::ValueType::array) {
    bytes = raw_bytes({static_cast<std::uint32_t>(entry.element_type)});
    const auto count = raw_bytes({entry.count});
    bytes.insert(bytes.end(), count.begin(), count.end());
  }
  bytes.insert(bytes.end(), entry.value.begin(), entry.value.end());
  return bytes;
}

}  // namespace

modelfile::ModelFile rewrite(const modelfile::ModelFile& file, const Changes& changes) {
  GgufWriter writer;
  for (const modelfile::MetadataEntry& entry : file.metadata().entries()) {
    if (changes.dropped.contains(std::string(entry.key))) continue;
    writer.add_raw(entry.key, static_cast<std::uint32_t>(entry.type), stored(entry));
  }
  if (changes.add_fields) changes.add_fields(writer);
  for (const modelfile::TensorInfo& tensor : file.tensors()) {
    const std::string name(tensor.name);
    if (changes.dropped.contains(name)) continue;
    const auto bytes = file.tensor_bytes(tensor);
    std::vector<std::byte> data(bytes.begin(), bytes.end());
    if (changes.edit && tensor.type == modelfile::GgmlType::f32) {
      std::vector<float> values(data.size() / sizeof(float));
      std::memcpy(values.data(), data.data(), data.size());
      changes.edit(name, values);
      std::memcpy(data.data(), values.data(), data.size());
    }
    writer.add_tensor(name, tensor.type, {tensor.dims.begin(), tensor.dims.begin() + tensor.n_dims},
                      std::move(data));
  }
  auto made = modelfile::ModelFile::parse(writer.bytes());
  BATON_CHECK(made.has_value());
  return std::move(*made);
}

}  // namespace baton::test
