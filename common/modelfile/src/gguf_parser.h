// The GGUF container: from bytes to checked tables. Pure; reads no file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "baton/base/result.h"
#include "baton/modelfile/metadata.h"
#include "baton/modelfile/model_file.h"

namespace baton::modelfile {

struct ParsedGguf {
  std::uint32_t version = 0;
  std::uint32_t alignment_bytes = 0;
  std::vector<MetadataEntry> fields;
  std::vector<TensorInfo> tensors;
  std::vector<std::uint32_t> by_name;  ///< indices into tensors, ascending by name
};

/// Views in the result point into `bytes`.
Result<ParsedGguf> parse_gguf(std::span<const std::byte> bytes);

/// Bytes of one value of a fixed-size type; 0 for strings and arrays.
std::size_t fixed_size_bytes(ValueType type);

}  // namespace baton::modelfile
