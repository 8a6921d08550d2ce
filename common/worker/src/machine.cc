#include "baton/worker/machine.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <vector>

#include <unistd.h>

namespace baton::worker {
namespace {

/// "a,b" names the controller b?
bool lists(const std::string& controllers, const std::string& wanted) {
  return ("," + controllers + ",").find("," + wanted + ",") != std::string::npos;
}

/// Appends the folder of the group and those of all groups above it. In a container the path may
/// be one of the host that is not visible: then only the root, which is the container's, exists.
void add_with_parents(const std::string& top, std::string path, std::vector<std::string>& out) {
  for (;;) {
    out.push_back(top + path);
    if (path.empty()) return;
    const std::size_t slash = path.find_last_of('/');
    path.erase(slash == std::string::npos ? 0 : slash);
  }
}

struct Folders {
  std::vector<std::string> v1;
  std::vector<std::string> v2;
};

Folders folders_of(const ControlGroupFiles& files, const std::string& controller) {
  Folders out;
  add_with_parents(files.root + "/" + controller, "", out.v1);
  add_with_parents(files.root, "", out.v2);
  std::ifstream self(files.self);
  // number:controllers:path; version 2 lists no controllers.
  for (std::string line; std::getline(self, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    if (controllers.empty()) add_with_parents(files.root, path, out.v2);
    if (lists(controllers, controller)) {
      add_with_parents(files.root + "/" + controller, path, out.v1);
    }
  }
  return out;
}

std::uint64_t number_in(const std::string& path) {
  std::ifstream file(path);
  std::uint64_t value = 0;
  return file >> value ? value : std::numeric_limits<std::uint64_t>::max();
}

}  // namespace

std::uint64_t memory_limit_bytes(const ControlGroupFiles& files) {
  std::uint64_t limit = static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                        static_cast<std::uint64_t>(sysconf(_SC_PAGE_SIZE));
  const Folders folders = folders_of(files, "memory");
  for (const std::string& folder : folders.v2) {
    limit = std::min(limit, number_in(folder + "/memory.max"));
  }
  for (const std::string& folder : folders.v1) {
    limit = std::min(limit, number_in(folder + "/memory.limit_in_bytes"));
  }
  return limit;
}

std::optional<double> quota_processors(const ControlGroupFiles& files) {
  const Folders folders = folders_of(files, "cpu");
  std::optional<double> tightest;
  const auto consider = [&](double quota, double period) {
    if (quota <= 0 || period <= 0) return;
    tightest = std::min(tightest.value_or(quota / period), quota / period);
  };
  for (const std::string& folder : folders.v2) {
    std::ifstream file(folder + "/cpu.max");
    double quota = 0;  // stays 0 for "max"
    double period = 0;
    if (file >> quota >> period) consider(quota, period);
  }
  for (const std::string& folder : folders.v1) {
    std::ifstream quota_file(folder + "/cpu.cfs_quota_us");
    std::ifstream period_file(folder + "/cpu.cfs_period_us");
    double quota = 0;  // -1: none
    double period = 0;
    if (quota_file >> quota && period_file >> period) consider(quota, period);
  }
  return tightest;
}

std::vector<std::string> group_processor_lists(const ControlGroupFiles& files) {
  const Folders folders = folders_of(files, "cpuset");
  std::vector<std::string> lists;
  const auto consider = [&](const std::string& path) {
    std::ifstream file(path);
    std::string list;
    if (file >> list) lists.push_back(list);
  };
  for (const std::string& folder : folders.v2) consider(folder + "/cpuset.cpus.effective");
  for (const std::string& folder : folders.v1) consider(folder + "/cpuset.cpus");
  return lists;
}

}  // namespace baton::worker
