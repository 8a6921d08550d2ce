#include "baton/tensor/huge_pages.h"

#include <cstdint>

#include <sys/mman.h>
#include <unistd.h>

namespace baton::tensor {
namespace {

/// Of address space, not of memory; nullptr when there is none.
std::byte* reserve(std::size_t bytes) {
  void* at = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return at == MAP_FAILED ? nullptr : static_cast<std::byte*>(at);
}

/// Address space for `bytes` at a multiple of huge_page_bytes.
std::byte* reserve_aligned(std::size_t bytes) {
  std::byte* at = reserve(bytes + huge_page_bytes);
  if (at == nullptr) return nullptr;
  const std::size_t before = -reinterpret_cast<std::uintptr_t>(at) % huge_page_bytes;
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t kept = (bytes + page - 1) / page * page;
  if (before > 0) ::munmap(at, before);
  if (before < huge_page_bytes) ::munmap(at + before + kept, huge_page_bytes - before);
  return at + before;
}

}  // namespace

void want_huge_pages(std::span<const std::byte> memory) {
  ::madvise(const_cast<std::byte*>(memory.data()), memory.size(), MADV_HUGEPAGE);
}

std::byte* map_file(int descriptor, std::size_t bytes, int protection) {
  std::byte* wanted = bytes >= huge_page_bytes ? reserve_aligned(bytes) : nullptr;
  const int fixed = wanted != nullptr ? MAP_FIXED : 0;
  void* at = ::mmap(wanted, bytes, protection, MAP_SHARED | fixed, descriptor, 0);
  if (at == MAP_FAILED) {
    if (wanted != nullptr) ::munmap(wanted, bytes);
    return nullptr;
  }
  auto* memory = static_cast<std::byte*>(at);
  want_huge_pages({memory, bytes});
  return memory;
}

}  // namespace baton::tensor
