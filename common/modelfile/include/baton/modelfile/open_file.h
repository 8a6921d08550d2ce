// A file that stays open: all that is read through it is of one file, whatever its name leads to
// meanwhile, and whether that was changed in place can be asked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "baton/base/result.h"

namespace baton::modelfile {

/// What tells a file's content from another without reading it. The time is the last write's.
struct FileIdentity {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::uint64_t size_bytes = 0;
  std::int64_t seconds = 0;
  std::int64_t nanoseconds = 0;

  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
};

class OpenFile {
 public:
  /// A regular file, for reading. Errors: io_error, bad_model_file for what is no file. No message
  /// of this class names the path: path() is for whoever reports it.
  static Result<OpenFile> open(const std::filesystem::path& path);

  OpenFile(OpenFile&& other) noexcept;
  OpenFile& operator=(OpenFile&& other) noexcept;
  ~OpenFile();

  const std::filesystem::path& path() const { return path_; }
  int descriptor() const { return descriptor_; }
  /// As it was when the file was opened.
  const FileIdentity& identity() const { return identity_; }
  /// io_error when the file's identity is not that of its opening any more. Another file under the
  /// same name is no change.
  Result<void> check_unchanged() const;
  /// Fills the beginning of `buffer` and says how far; 0 at the end of the file.
  Result<std::size_t> read_at(std::uint64_t offset_bytes, std::span<std::byte> buffer) const;

 private:
  OpenFile(const std::filesystem::path& path, int descriptor);

  std::filesystem::path path_;
  int descriptor_ = -1;
  FileIdentity identity_;
};

}  // namespace baton::modelfile
