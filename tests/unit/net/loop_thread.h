// An event loop on a thread of its own, as the servers have it.
#pragma once

#include <chrono>
#include <future>
#include <thread>
#include <utility>

#include "baton/net/io/event_loop.h"

namespace baton::net::testing {

using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;

/// How long a test waits for what has to come. Only a failing test waits that long.
inline constexpr Duration test_patience = 30s;

class LoopThread {
 public:
  LoopThread() : thread_([this] { loop_.run(); }) {}
  ~LoopThread() { stop(); }

  /// What was made with the loop may be destroyed on the caller's thread after this.
  void stop() {
    if (!thread_.joinable()) return;
    loop_.post([this] { loop_.stop(); });
    thread_.join();
  }

  /// Runs `fn` on the loop's thread and returns what it returned.
  template <typename Fn>
  auto on_loop(Fn fn) {
    std::packaged_task<decltype(fn())()> task(std::move(fn));
    auto result = task.get_future();
    loop_.post([&task] { task(); });
    return result.get();
  }

  /// Asks on the loop's thread until the answer is yes; false after `patience`.
  template <typename Fn>
  bool wait_until(Fn condition, Duration patience = test_patience) {
    const Instant end = monotonic_now() + patience;
    while (monotonic_now() < end) {
      if (on_loop(condition)) return true;
      std::this_thread::sleep_for(2ms);
    }
    return false;
  }

  EventLoop& loop() { return loop_; }

 private:
  EventLoop loop_;
  std::thread thread_;
};

}  // namespace baton::net::testing
