#include "baton/tensor/shared_buffer.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "baton/tensor/huge_pages.h"

namespace baton::tensor {
namespace {

Error failed(const char* step) {
  return {Reason::io_error, std::string("cache memory: ") + step + ": " + std::strerror(errno)};
}

// Linux 5.1; glibc's header of Debian 12 has it, older kernels answer EINVAL and keep the rest.
constexpr int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE;

}  // namespace

SharedBuffer::~SharedBuffer() {
  if (data_ != nullptr) munmap(data_, size_);
  if (descriptor_ >= 0) close(descriptor_);
}

SharedBuffer::SharedBuffer(SharedBuffer&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

SharedBuffer& SharedBuffer::operator=(SharedBuffer&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

Result<SharedBuffer> SharedBuffer::create(const std::string& name, std::size_t bytes) {
  SharedBuffer buffer;
  buffer.descriptor_ = memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (buffer.descriptor_ < 0) return failed("memfd_create");
  if (ftruncate(buffer.descriptor_, static_cast<off_t>(bytes)) != 0) return failed("ftruncate");
  if (bytes > 0) {
    buffer.data_ = map_file(buffer.descriptor_, bytes, PROT_READ | PROT_WRITE);
    if (buffer.data_ == nullptr) return failed("mmap");
    buffer.size_ = bytes;
  }
  // Sealed after our own mapping: existing writable mappings stay, new ones are refused.
  if (fcntl(buffer.descriptor_, F_ADD_SEALS, seals) != 0) return failed("seal");
  return buffer;
}

}  // namespace baton::tensor
