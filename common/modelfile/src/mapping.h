// Where a model file's bytes live: a read-only mapping or memory of our own.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "baton/base/result.h"

namespace baton::modelfile {

class FileBytes {
 public:
  explicit FileBytes(std::vector<std::byte> owned) : owned_(std::move(owned)), view_(owned_) {}
  ~FileBytes();
  FileBytes(const FileBytes&) = delete;
  FileBytes& operator=(const FileBytes&) = delete;

  /// Maps the whole of a regular file.
  static Result<std::unique_ptr<FileBytes>> map(const std::filesystem::path& path);

  std::span<const std::byte> view() const { return view_; }

 private:
  FileBytes() = default;

  std::vector<std::byte> owned_;
  std::span<const std::byte> view_;
  bool mapped_ = false;
};

}  // namespace baton::modelfile
