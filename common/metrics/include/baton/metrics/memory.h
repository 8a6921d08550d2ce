// What a process takes of the machine's memory, pages that it shares counted by its share.
#pragma once

#include <cstdint>
#include <optional>

#include "baton/metrics/registry.h"

namespace baton::metrics {

struct MemoryShare {
  std::uint64_t proportional_bytes = 0;  ///< a page that n processes map counts one n-th
  std::uint64_t huge_page_bytes = 0;     ///< of what is mapped, in pages of 2 MiB
};

/// Of this process; nothing when the system does not tell. Takes the kernel some milliseconds a
/// gigabyte that is mapped.
std::optional<MemoryShare> memory_share();

/// Registers gauges that are read at each exposition.
void expose_memory(Registry& registry);

}  // namespace baton::metrics
