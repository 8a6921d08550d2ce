#include "baton/metrics/memory.h"

#include <fstream>
#include <limits>
#include <string>

namespace baton::metrics {

std::optional<MemoryShare> memory_share() {
  std::ifstream file("/proc/self/smaps_rollup");
  std::optional<MemoryShare> share;
  file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');  // the range of addresses
  std::string name;
  std::string unit;
  for (std::uint64_t kilobytes = 0; file >> name >> kilobytes >> unit;) {
    if (!share) share.emplace();
    if (name == "Pss:") share->proportional_bytes = kilobytes * 1024;
    // Anonymous memory, shared memory, files: what they count does not overlap.
    if (name == "AnonHugePages:" || name == "ShmemPmdMapped:" || name == "FilePmdMapped:") {
      share->huge_page_bytes += kilobytes * 1024;
    }
  }
  return share;
}

MemoryWatch::MemoryWatch(Registry& registry) {
  Gauge proportional =
      registry.gauge("baton_memory_proportional_bytes",
                     "Memory of this process; a page that n processes map counts one n-th");
  Gauge huge = registry.gauge("baton_memory_huge_page_bytes", "Memory mapped in pages of 2 MiB");
  registry.before_expose([this, proportional, huge]() mutable {
    const std::optional<MemoryShare> share = ask();
    if (!share) return;
    proportional.set(static_cast<double>(share->proportional_bytes));
    huge.set(static_cast<double>(share->huge_page_bytes));
  });
  thread_ = std::thread([this] { read_when_asked(); });
}

MemoryWatch::~MemoryWatch() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

std::optional<MemoryShare> MemoryWatch::ask() {
  std::lock_guard lock(mutex_);
  asked_ = true;
  changed_.notify_one();
  return last_;
}

void MemoryWatch::read_when_asked() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return asked_ || stopping_; });
    if (stopping_) return;
    asked_ = false;
    lock.unlock();
    const std::optional<MemoryShare> share = memory_share();
    lock.lock();
    last_ = share;
  }
}

}  // namespace baton::metrics
