#include "baton/tensor/dtype.h"

#include <array>

#include "baton/base/check.h"

namespace baton::tensor {
namespace {

// Block sizes of the GGUF specification, in the order of DType.
constexpr std::array dtypes = {
    DTypeInfo{"F32", 1, 4},      DTypeInfo{"F16", 1, 2},      DTypeInfo{"BF16", 1, 2},
    DTypeInfo{"Q4_0", 32, 18},   DTypeInfo{"Q4_1", 32, 20},   DTypeInfo{"Q5_0", 32, 22},
    DTypeInfo{"Q5_1", 32, 24},   DTypeInfo{"Q8_0", 32, 34},   DTypeInfo{"Q4_K", 256, 144},
    DTypeInfo{"Q5_K", 256, 176}, DTypeInfo{"Q6_K", 256, 210},
};

constexpr std::array<std::pair<CacheDtype, std::string_view>, 3> cache_names = {{
    {CacheDtype::bf16, "bf16"},
    {CacheDtype::f32, "f32"},
    {CacheDtype::q8_0, "q8_0"},
}};

}  // namespace

const DTypeInfo& info(DType dtype) { return dtypes.at(static_cast<std::size_t>(dtype)); }

std::size_t row_bytes(DType dtype, std::size_t columns) {
  const DTypeInfo& entry = info(dtype);
  BATON_CHECK(columns % entry.block_elements == 0);
  return columns / entry.block_elements * entry.block_bytes;
}

std::string_view name(CacheDtype dtype) {
  for (const auto& [known, text] : cache_names) {
    if (known == dtype) return text;
  }
  BATON_CHECK(false && "not a cache dtype");
}

std::vector<std::pair<std::string, CacheDtype>> cache_dtypes() {
  std::vector<std::pair<std::string, CacheDtype>> all;
  for (const auto& [dtype, text] : cache_names) all.emplace_back(text, dtype);
  return all;
}

}  // namespace baton::tensor
