#include "baton/weights/packed_memory.h"

#include <utility>

#include <sys/mman.h>

#include "baton/base/check.h"

namespace baton::weights {

PackedMemory::~PackedMemory() {
  if (mapped_ != nullptr) ::munmap(mapped_, mapped_bytes_);
}

PackedMemory::PackedMemory(PackedMemory&& other) noexcept
    : own_(std::move(other.own_)),
      mapped_(std::exchange(other.mapped_, nullptr)),
      mapped_bytes_(std::exchange(other.mapped_bytes_, 0)),
      skipped_(std::exchange(other.skipped_, 0)) {}

PackedMemory& PackedMemory::operator=(PackedMemory&& other) noexcept {
  std::swap(own_, other.own_);
  std::swap(mapped_, other.mapped_);
  std::swap(mapped_bytes_, other.mapped_bytes_);
  std::swap(skipped_, other.skipped_);
  return *this;
}

PackedMemory PackedMemory::own(std::size_t bytes) {
  PackedMemory memory;
  memory.own_ = tensor::Buffer(bytes);
  return memory;
}

PackedMemory PackedMemory::mapping(std::byte* at, std::size_t mapped, std::size_t skipped) {
  BATON_CHECK(at != nullptr && skipped <= mapped);
  PackedMemory memory;
  memory.mapped_ = at;
  memory.mapped_bytes_ = mapped;
  memory.skipped_ = skipped;
  return memory;
}

void PackedMemory::make_read_only() {
  if (mapped_ != nullptr) BATON_CHECK(::mprotect(mapped_, mapped_bytes_, PROT_READ) == 0);
}

}  // namespace baton::weights
