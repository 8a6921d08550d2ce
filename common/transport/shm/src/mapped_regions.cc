#include "mapped_regions.h"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>

namespace baton::transport::shm {

MappedRegions::~MappedRegions() {
  for (const auto region : regions_) {
    if (!region.empty()) munmap(const_cast<std::byte*>(region.data()), region.size());
  }
}

Result<void> MappedRegions::add(std::uint32_t index, std::uint64_t bytes, Descriptor file) {
  if (!file || index >= regions_.size() || !regions_[index].empty() || bytes == 0) {
    return Error(Reason::protocol_violation, fmt::format("bad memory region {}", index));
  }
  const int seals = fcntl(file.get(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
    return Error(Reason::protocol_violation,
                 fmt::format("memory region {} is not sealed against shrinking", index));
  }
  struct stat status = {};
  if (fstat(file.get(), &status) != 0 || static_cast<std::uint64_t>(status.st_size) < bytes) {
    return Error(
        Reason::protocol_violation,
        fmt::format("memory region {} has {} bytes, {} announced", index, status.st_size, bytes));
  }
  void* memory = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file.get(), 0);
  if (memory == MAP_FAILED) {
    return Error(Reason::io_error,
                 fmt::format("mapping memory region {}: {}", index, std::strerror(errno)));
  }
  regions_[index] = {static_cast<const std::byte*>(memory), bytes};
  return ok();
}

std::optional<std::span<const std::byte>> MappedRegions::resolve(const RegionRange& range) const {
  if (range.bytes == 0) return std::span<const std::byte>();
  if (range.region >= regions_.size()) return std::nullopt;
  const auto region = regions_[range.region];
  if (range.offset > region.size() || range.bytes > region.size() - range.offset) {
    return std::nullopt;
  }
  return region.subspan(range.offset, range.bytes);
}

}  // namespace baton::transport::shm
