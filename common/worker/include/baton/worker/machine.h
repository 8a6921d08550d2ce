// Limits of the machine and of the control groups that the process runs in (cgroup v1 and v2).
#pragma once

#include <cstdint>
#include <string>

namespace baton::worker {

/// Where the kernel shows control groups; other places in tests.
struct ControlGroupFiles {
  std::string root = "/sys/fs/cgroup";
  std::string self = "/proc/self/cgroup";
};

/// The tightest of the machine's memory and the limits of this process's group and of those above
/// it. Without control groups: the machine's memory.
std::uint64_t memory_limit_bytes(const ControlGroupFiles& files = {});

/// Cores that this process may keep busy, by affinity and by the groups' quotas; at least 1.
int usable_cores(const ControlGroupFiles& files = {});

}  // namespace baton::worker
