// What a process takes of the machine's memory, pages that it shares counted by its share.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <thread>

#include "baton/metrics/registry.h"

namespace baton::metrics {

struct MemoryShare {
  std::uint64_t proportional_bytes = 0;  ///< a page that n processes map counts one n-th
  std::uint64_t huge_page_bytes = 0;     ///< of what is mapped, in pages of 2 MiB
};

/// Of this process; nothing when the system does not tell. Takes the kernel some milliseconds a
/// gigabyte that is mapped: nothing for a thread that others wait for.
std::optional<MemoryShare> memory_share();

/// Reads the share on a thread of its own, when it is asked for: whoever asks gets the reading of
/// the time before at once. Safe on any thread.
class MemoryWatch {
 public:
  /// Registers gauges that ask at each exposition; there is none after the watch has gone.
  explicit MemoryWatch(Registry& registry);
  ~MemoryWatch();

  MemoryWatch(const MemoryWatch&) = delete;
  MemoryWatch& operator=(const MemoryWatch&) = delete;

  /// The last reading; another one is begun.
  std::optional<MemoryShare> ask();

 private:
  void read_when_asked();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<MemoryShare> last_;
  bool asked_ = true;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace baton::metrics
