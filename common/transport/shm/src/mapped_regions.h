// A peer's memory files, mapped for reading.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "baton/base/result.h"
#include "baton/transport/descriptor.h"
#include "baton/transport/memory.h"

namespace baton::transport::shm {

class MappedRegions {
 public:
  MappedRegions() = default;
  ~MappedRegions();
  MappedRegions(const MappedRegions&) = delete;
  MappedRegions& operator=(const MappedRegions&) = delete;

  /// Maps `file` as region `index`. Refused unless it is sealed against shrinking (a truncated file
  /// would kill the reader) and holds `bytes`: Reason::protocol_violation.
  Result<void> add(std::uint32_t index, std::uint64_t bytes, Descriptor file);

  /// The bytes of a range; nothing if it is not wholly inside a mapped region (R3, R13).
  std::optional<std::span<const std::byte>> resolve(const RegionRange& range) const;

 private:
  std::array<std::span<const std::byte>, MemoryRegistry::max_regions> regions_{};
};

}  // namespace baton::transport::shm
