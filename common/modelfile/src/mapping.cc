#include "mapping.h"

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include <sys/mman.h>
#include <unistd.h>

namespace baton::modelfile {

FileBytes::~FileBytes() {
  if (file_) ::munmap(const_cast<std::byte*>(view_.data()), view_.size());
}

void FileBytes::drop_pages(std::span<const std::byte> part) const {
  if (!file_) return;
  const auto page_bytes = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto address = reinterpret_cast<std::uintptr_t>(part.data());
  const std::uintptr_t begin = (address + page_bytes - 1) / page_bytes * page_bytes;
  const std::uintptr_t end = (address + part.size()) / page_bytes * page_bytes;
  // Advice only: a failure costs memory, not correctness.
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

Result<std::unique_ptr<FileBytes>> FileBytes::map(const std::filesystem::path& path) {
  BATON_ASSIGN(OpenFile file, OpenFile::open(path));
  const std::uint64_t size_bytes = file.identity().size_bytes;
  if (size_bytes == 0) return Error(Reason::bad_model_file, "the file is empty");
  void* address = ::mmap(nullptr, size_bytes, PROT_READ, MAP_PRIVATE, file.descriptor(), 0);
  if (address == MAP_FAILED) {
    return Error(Reason::io_error, std::string("cannot map: ") + std::strerror(errno));
  }
  std::unique_ptr<FileBytes> bytes(new FileBytes());
  bytes->view_ = {static_cast<const std::byte*>(address), size_bytes};
  bytes->file_.emplace(std::move(file));
  return bytes;
}

}  // namespace baton::modelfile
