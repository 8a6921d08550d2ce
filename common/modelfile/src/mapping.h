// Where a model file's bytes live: a read-only mapping or memory of our own.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "baton/base/result.h"
#include "baton/modelfile/open_file.h"

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
  /// What is mapped; nullptr for owned bytes.
  const OpenFile* file() const { return file_ ? &*file_ : nullptr; }
  /// Drops the whole pages inside `part` of a mapping from memory; nothing for owned bytes.
  void drop_pages(std::span<const std::byte> part) const;

 private:
  FileBytes() = default;

  std::vector<std::byte> owned_;
  std::span<const std::byte> view_;
  std::optional<OpenFile> file_;  // that of a mapping
};

}  // namespace baton::modelfile
