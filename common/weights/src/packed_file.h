// One model's packed weights in a file of the cache folder: made by the first process, mapped by
// all. What it holds can always be made again, so that whatever is wrong with it (missing, damaged,
// of another layout, no space) is an answer without a value and never an error.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "baton/base/ids.h"
#include "baton/base/time.h"
#include "baton/weights/packed_memory.h"

namespace baton::weights {

/// At most so many files are kept in a folder; the one that was used longest ago goes first.
inline constexpr std::size_t most_packed_files = 8;

class PackedFile {
 public:
  /// `key` names content and layout; `bytes` is what packed weights of that key take.
  PackedFile(const std::filesystem::path& cache, const std::string& key, std::size_t bytes);
  ~PackedFile();
  PackedFile(const PackedFile&) = delete;
  PackedFile& operator=(const PackedFile&) = delete;

  /// The whole of it, mapped for reading, once its digest is right.
  std::optional<PackedMemory> find() const;

  /// Waits until no other process makes this file; it may be there afterwards. False when the wait
  /// was longer than `patience` or the folder cannot be used.
  bool lock(Duration patience);
  /// Space in a file aside, to be packed into. Needs lock().
  std::optional<PackedMemory> begin();
  /// Gives `memory`, which begin() made, its digest and its name; it is read-only afterwards and
  /// stays usable when that fails.
  void finish(PackedMemory& memory);

 private:
  std::filesystem::path folder_;
  std::filesystem::path path_;
  std::filesystem::path aside_;
  std::size_t bytes_;
  int lock_ = -1;
};

}  // namespace baton::weights
