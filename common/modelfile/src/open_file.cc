#include "baton/modelfile/open_file.h"

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace baton::modelfile {
namespace {

Error system_error(const char* action) {
  return {Reason::io_error, std::string(action) + ": " + std::strerror(errno)};
}

FileIdentity identity_of(const struct stat& status) {
  return {status.st_dev, status.st_ino, static_cast<std::uint64_t>(status.st_size),
          status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
}

}  // namespace

OpenFile::OpenFile(const std::filesystem::path& path, int descriptor)
    : path_(path), descriptor_(descriptor) {}

OpenFile::OpenFile(OpenFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      identity_(other.identity_) {}

OpenFile& OpenFile::operator=(OpenFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(identity_, other.identity_);
  return *this;
}

OpenFile::~OpenFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Result<OpenFile> OpenFile::open(const std::filesystem::path& path) {
  // Non-blocking, so that a named pipe cannot hold the process before it is refused.
  OpenFile file(path, ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.descriptor_ < 0) return system_error("cannot open");
  struct stat status {};
  if (::fstat(file.descriptor_, &status) != 0) return system_error("cannot read its size");
  if (!S_ISREG(status.st_mode)) return Error(Reason::bad_model_file, "not a regular file");
  file.identity_ = identity_of(status);
  return file;
}

Result<void> OpenFile::check_unchanged() const {
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0) return system_error("cannot read its size");
  if (identity_of(status) == identity_) return ok();
  return Error(Reason::io_error, "the file changed while it was read");
}

Result<std::size_t> OpenFile::read_at(std::uint64_t offset_bytes,
                                      std::span<std::byte> buffer) const {
  while (true) {
    const ssize_t got =
        ::pread(descriptor_, buffer.data(), buffer.size(), static_cast<off_t>(offset_bytes));
    if (got >= 0) return static_cast<std::size_t>(got);
    if (errno != EINTR) return system_error("cannot read");
  }
}

}  // namespace baton::modelfile
