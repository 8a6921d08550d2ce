#include "baton/tensor/buffer.h"

#include <cstring>

#include "baton/base/check.h"

namespace baton::tensor {

Buffer::Buffer(std::size_t bytes) : size_(bytes) {
  constexpr std::size_t alignment = 64;
  const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  if (rounded == 0) return;
  data_.reset(static_cast<std::byte*>(std::aligned_alloc(alignment, rounded)));
  BATON_CHECK(data_ != nullptr);
  std::memset(data_.get(), 0, rounded);
}

}  // namespace baton::tensor
