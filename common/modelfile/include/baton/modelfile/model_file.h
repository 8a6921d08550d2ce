// Model files: GGUF v2 and v3, little-endian, mapped read-only. Opening checks every count, length,
// type, alignment, offset and overlap before anything is allocated for it; it executes nothing,
// opens no connection and computes no tensor (R14, R27). Memory taken beyond the file's pages is
// the tables of field and tensor names. Non-goals: writing files, split files, big-endian files,
// dequantisation.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "baton/base/result.h"
#include "baton/modelfile/ggml_type.h"
#include "baton/modelfile/metadata.h"
#include "baton/modelfile/open_file.h"

namespace baton::modelfile {

/// dims[0] is the fastest-moving dimension (the row length of a matrix: its number of inputs), as
/// in the file. Unused dims are 1. Every dim is ≥ 1 and dims[0] is a multiple of the type's block.
struct TensorInfo {
  std::string_view name;
  GgmlType type = GgmlType::f32;
  std::uint32_t n_dims = 1;  ///< 1 to 4
  std::array<std::uint64_t, 4> dims{1, 1, 1, 1};
  std::uint64_t offset_bytes = 0;  ///< from the start of the file
  std::uint64_t size_bytes = 0;

  std::uint64_t elements() const { return dims[0] * dims[1] * dims[2] * dims[3]; }
  std::uint64_t row_bytes() const {
    return dims[0] / info(type).block_elements * info(type).block_bytes;
  }
};

class FileBytes;  // private: what the bytes live in

/// An open model file. Movable; every view it hands out (names, strings, arrays, tensor bytes)
/// lives as long as it does and survives a move. The file must not be shortened while it is open:
/// like any mapping, reading a page that is gone ends the process.
class ModelFile {
 public:
  /// Errors: io_error when the file cannot be read, bad_model_file for everything in it; the
  /// message begins with the path and names the field or tensor.
  static Result<ModelFile> open(const std::filesystem::path& path);
  /// The same from bytes in memory (tests, fuzzing).
  static Result<ModelFile> parse(std::vector<std::byte> bytes);

  ModelFile(ModelFile&&) noexcept;
  ModelFile& operator=(ModelFile&&) noexcept;
  ~ModelFile();

  std::uint32_t version() const { return version_; }
  const Metadata& metadata() const { return metadata_; }

  /// All tensors, in the order of the file's table.
  std::span<const TensorInfo> tensors() const { return tensors_; }
  /// nullptr when there is none of this name.
  const TensorInfo* find_tensor(std::string_view name) const;
  /// The same, or a bad_model_file error that names the tensor.
  Result<const TensorInfo*> tensor(std::string_view name) const;
  /// The stored bytes of one of this file's tensors, aligned in the file to `alignment_bytes()`.
  std::span<const std::byte> tensor_bytes(const TensorInfo& tensor) const;
  /// Gives the pages that only this tensor uses back to the system; they are read again from the
  /// file when they are touched. Does nothing for a file in memory.
  void drop_pages(const TensorInfo& tensor) const;

  /// The file that is mapped, open as long as this is; nullptr for one in memory.
  const OpenFile* file() const;
  /// io_error, with the path, when the file was written to since it was opened: what was read may
  /// be of two contents. A file in memory does not change.
  Result<void> check_unchanged() const;
  std::uint64_t size_bytes() const;
  std::uint32_t alignment_bytes() const { return alignment_bytes_; }

 private:
  explicit ModelFile(std::unique_ptr<FileBytes> bytes);
  static Result<ModelFile> from(std::unique_ptr<FileBytes> bytes);

  std::unique_ptr<FileBytes> bytes_;
  std::uint32_t version_ = 0;
  std::uint32_t alignment_bytes_ = 0;
  Metadata metadata_;
  std::vector<TensorInfo> tensors_;
  std::vector<std::uint32_t> by_name_;  // indices into tensors_, ascending by name
};

}  // namespace baton::modelfile
