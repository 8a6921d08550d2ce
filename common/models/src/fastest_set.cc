#include "baton/models/fastest_set.h"

#include <cstdint>

#include "baton/kernels/kernels.h"

namespace baton::models {

std::string_view fastest_set(const modelfile::ModelFile& file) {
  std::uint64_t bf16 = 0;
  std::uint64_t others = 0;
  for (const modelfile::TensorInfo& each : file.tensors()) {
    (each.type == modelfile::GgmlType::bf16 ? bf16 : others) += each.size_bytes;
  }
  return kernels::fastest_set(bf16 > others);
}

}  // namespace baton::models
