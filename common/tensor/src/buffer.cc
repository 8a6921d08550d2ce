#include "baton/tensor/buffer.h"

#include <cstring>

#include "baton/base/check.h"
#include "baton/tensor/huge_pages.h"

namespace baton::tensor {

Buffer::Buffer(std::size_t bytes) : size_(bytes) {
  constexpr std::size_t line = 64;
  const std::size_t rounded = (bytes + line - 1) / line * line;
  if (rounded == 0) return;
  const bool large = rounded >= huge_page_bytes;
  void* memory = nullptr;
  BATON_CHECK(::posix_memalign(&memory, large ? huge_page_bytes : line, rounded) == 0);
  data_.reset(static_cast<std::byte*>(memory));
  // Before the first write, which decides about the pages.
  if (large) want_huge_pages({data_.get(), rounded});
  std::memset(data_.get(), 0, rounded);
}

}  // namespace baton::tensor
