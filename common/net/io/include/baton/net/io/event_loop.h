// One thread's event loop. Sockets, timers and callbacks of everything that was made with a loop
// belong to the thread in run(); other threads reach it through post() alone.
#pragma once

#include <functional>
#include <memory>

#include "baton/base/time.h"

namespace boost::asio {
class io_context;
}

namespace baton::net {

/// Owns one scheduled call; its end cancels it. Loop thread only.
class [[nodiscard]] Timer {
 public:
  Timer() = default;
  Timer(Timer&&) noexcept = default;
  Timer& operator=(Timer&& other) noexcept;
  ~Timer();

  /// The function is not called after this returns. Harmless when it has run or none is scheduled.
  void cancel();

  /// Still to be called (always true for a periodic timer that was not cancelled).
  bool pending() const;

 private:
  friend class EventLoop;
  struct State;
  explicit Timer(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

class EventLoop {
 public:
  EventLoop();
  ~EventLoop();  ///< after run() has returned and what was made with the loop is gone
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  /// Runs callbacks on the calling thread until stop(). At most one thread; may be called again.
  void run();

  /// Runs the next callback, waiting up to `patience` for one; for synchronous programs and tests.
  /// False when none came.
  bool run_one(Duration patience);

  /// Makes run() return after the current callback. Any thread.
  void stop();

  /// Calls `fn` on the loop's thread, in the order of posting, never inside post() itself. Any
  /// thread. Never refused, so whoever posts has a bound of his own: a constant for each
  /// connection, request or job that the loop has let in, or a count of calls that have not
  /// run yet, beyond which he begins nothing new.
  void post(std::function<void()> fn);

  Timer schedule_after(Duration delay, std::function<void()> fn);

  /// First call after one interval. A late call is not made up for by extra ones.
  Timer schedule_every(Duration interval, std::function<void()> fn);

  /// True on the thread in run(), and on any thread while none is in run() (set-up, tear-down).
  bool on_loop_thread() const;

  /// For libraries that bring their own Asio objects.
  boost::asio::io_context& context();

 private:
  friend class TcpStream;  // uses the loop's read buffer
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace baton::net
