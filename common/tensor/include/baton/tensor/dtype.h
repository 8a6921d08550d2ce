// Element types of weights and of the cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace baton::tensor {

/// Weight element types, named as in GGUF. Block types store `elements` values in `bytes` bytes.
enum class DType : std::uint8_t {
  f32,
  f16,
  bf16,
  q4_0,
  q4_1,
  q5_0,
  q5_1,
  q8_0,
  q4_k,
  q5_k,
  q6_k,
};

struct DTypeInfo {
  std::string_view name;
  std::size_t block_elements;
  std::size_t block_bytes;
};

const DTypeInfo& info(DType dtype);

/// Bytes of one row of `columns` values. `columns` must be a multiple of block_elements.
std::size_t row_bytes(DType dtype, std::size_t columns);

/// Element type of cached keys and values; part of the fingerprint.
enum class CacheDtype : std::uint8_t { bf16 = 1, f32 = 2, q8_0 = 3 };

std::string_view name(CacheDtype dtype);
/// All of them by name, for tables of options.
std::vector<std::pair<std::string, CacheDtype>> cache_dtypes();

}  // namespace baton::tensor
