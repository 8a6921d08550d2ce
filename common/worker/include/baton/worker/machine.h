// Limits of the machine and of the control groups that the process runs in (cgroup v1 and v2).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace baton::worker {

/// Where the kernel shows control groups; other places in tests.
struct ControlGroupFiles {
  std::string root = "/sys/fs/cgroup";
  std::string self = "/proc/self/cgroup";
};

/// The tightest of the machine's memory and the limits of this process's group and of those above
/// it. Without control groups: the machine's memory.
std::uint64_t memory_limit_bytes(const ControlGroupFiles& files = {});

/// Processors' worth of time that the groups' quotas leave this process, e.g. 2.5; nothing when
/// there is no quota.
std::optional<double> quota_processors(const ControlGroupFiles& files = {});

/// The lists of processors of this process's group and of those above it, as the kernel writes
/// them ("0-3,6"); empty ones are left out.
std::vector<std::string> group_processor_lists(const ControlGroupFiles& files = {});

}  // namespace baton::worker
