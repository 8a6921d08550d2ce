#include "mapping.h"

#include <cerrno>
#include <cstring>
#include <string>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace baton::modelfile {
namespace {

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

Error system_error(const char* action) {
  return {Reason::io_error, std::string(action) + ": " + std::strerror(errno)};
}

}  // namespace

FileBytes::~FileBytes() {
  if (mapped_) ::munmap(const_cast<std::byte*>(view_.data()), view_.size());
}

Result<std::unique_ptr<FileBytes>> FileBytes::map(const std::filesystem::path& path) {
  // Non-blocking, so that a named pipe cannot hold the process before it is refused.
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) return system_error("cannot open");
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return system_error("cannot read its size");
  if (!S_ISREG(status.st_mode)) return Error(Reason::bad_model_file, "not a regular file");
  if (status.st_size == 0) return Error(Reason::bad_model_file, "the file is empty");
  const auto size_bytes = static_cast<std::size_t>(status.st_size);
  void* address = ::mmap(nullptr, size_bytes, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (address == MAP_FAILED) return system_error("cannot map");
  std::unique_ptr<FileBytes> bytes(new FileBytes());
  bytes->view_ = {static_cast<const std::byte*>(address), size_bytes};
  bytes->mapped_ = true;
  return bytes;
}

}  // namespace baton::modelfile
