// What the transports share: which memory may be used in extents, checks of a send's arguments, and
// copying between two scattered lists.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "baton/base/result.h"
#include "baton/tensor/shared_buffer.h"
#include "baton/transport/options.h"
#include "baton/transport/transport.h"

namespace baton::transport {

/// Where an extent lies: an index in the order of registration, and bytes from that region's start.
struct RegionRange {
  std::uint32_t region = 0;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

/// The buffers given to register_memory(). Owns none of them.
class MemoryRegistry {
 public:
  static constexpr std::size_t max_regions = 16;

  /// Reason::no_space after max_regions; adding a buffer again changes nothing.
  Result<void> add(tensor::SharedBuffer& memory);

  /// Nothing if the extent is not inside one registered buffer. An empty extent is inside any.
  std::optional<RegionRange> find(const Extent& extent) const;
  bool contains(std::span<const Extent> extents) const;

  std::span<tensor::SharedBuffer* const> regions() const { return regions_; }

 private:
  std::vector<tensor::SharedBuffer*> regions_;
};

/// Sum of the sizes; the caller has checked that it does not overflow (extents of registered memory
/// cannot: at most max_extents times an address space of 2^47).
std::size_t total_bytes(std::span<const Extent> extents);

/// The checks of send(): header and extent counts, registered memory, payload limit.
/// Reason::invalid_request with the offending number.
Result<void> check_send(const MemoryRegistry& memory, std::span<const std::byte> header,
                        std::span<const Extent> extents, const Options& options);

/// The same for accept(), where a mistake can only be a bug of ours: a CHECK.
void check_accept(const MemoryRegistry& memory, std::span<const Extent> extents);

/// ok, or truncated if `room` is smaller than `announced` (R12).
Status received_status(std::size_t announced, std::size_t room);

/// Copies one scattered list into another, in steps. Ends with the shorter of the two.
class ScatterCopy {
 public:
  /// The memory behind both lists outlives the copy; the lists are kept.
  ScatterCopy(std::vector<std::span<const std::byte>> from, std::vector<Extent> to);

  /// Copies up to `max_bytes`; true when all is copied.
  bool step(std::size_t max_bytes);

 private:
  std::vector<std::span<const std::byte>> from_;
  std::vector<Extent> to_;
  std::size_t from_index_ = 0;
  std::size_t from_offset_ = 0;
  std::size_t to_index_ = 0;
  std::size_t to_offset_ = 0;
};

}  // namespace baton::transport
