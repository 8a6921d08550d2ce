// Limits of the machine and of the control group that the process runs in (cgroup v1 and v2).
#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <string>

#include <sched.h>
#include <unistd.h>

#include "loaded_model.h"

namespace baton::worker {
namespace {

std::uint64_t number_in(const char* path) {
  std::ifstream file(path);
  std::uint64_t value = 0;
  return file >> value ? value : std::numeric_limits<std::uint64_t>::max();
}

double quota_cores() {
  std::ifstream v2("/sys/fs/cgroup/cpu.max");
  std::string quota;
  double period = 0;
  if (v2 >> quota >> period && quota != "max" && period > 0) return std::stod(quota) / period;
  std::ifstream v1_quota("/sys/fs/cgroup/cpu/cpu.cfs_quota_us");
  std::ifstream v1_period("/sys/fs/cgroup/cpu/cpu.cfs_period_us");
  double limit = 0;
  if (v1_quota >> limit && v1_period >> period && limit > 0 && period > 0) return limit / period;
  return std::numeric_limits<double>::max();
}

}  // namespace

std::uint64_t memory_limit_bytes() {
  const auto machine = static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                       static_cast<std::uint64_t>(sysconf(_SC_PAGE_SIZE));
  return std::min({machine, number_in("/sys/fs/cgroup/memory.max"),
                   number_in("/sys/fs/cgroup/memory/memory.limit_in_bytes")});
}

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  int cores = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  if (sched_getaffinity(0, sizeof(set), &set) == 0) cores = CPU_COUNT(&set);
  return std::max(1, static_cast<int>(std::min<double>(cores, std::ceil(quota_cores()))));
}

}  // namespace baton::worker
