// One thread for work that would hold up the loop for more than a millisecond.
#pragma once

#include <functional>
#include <thread>

#include "baton/base/bounded_queue.h"

namespace baton::router {

class WorkPool {
 public:
  /// At most `capacity` jobs wait.
  explicit WorkPool(std::size_t capacity) : jobs_(capacity), thread_([this] { run(); }) {}
  ~WorkPool() {
    jobs_.close();
    thread_.join();
  }
  WorkPool(const WorkPool&) = delete;
  WorkPool& operator=(const WorkPool&) = delete;

  /// False when too much is waiting.
  [[nodiscard]] bool post(std::function<void()> job) { return jobs_.try_push(std::move(job)); }

 private:
  void run() {
    for (;;) {
      const auto job = jobs_.pop_for(std::chrono::hours(1));
      if (jobs_.closed()) return;  // what still waits is given up
      if (job) (*job)();
    }
  }

  BoundedQueue<std::function<void()>> jobs_;
  std::thread thread_;
};

}  // namespace baton::router
