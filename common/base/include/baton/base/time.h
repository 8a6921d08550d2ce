// Time as values. Cores get `Instant now` as an argument; only io sides call monotonic_now().
#pragma once

#include <chrono>

namespace baton {

using Duration = std::chrono::nanoseconds;

/// Names the time line of Instant; it has no now(), so that a core cannot read it.
struct MonotonicTimeline {
  using duration = Duration;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<MonotonicTimeline, duration>;
  static constexpr bool is_steady = true;
};

/// A moment on this machine's monotonic clock. Never sent to a peer: the wire carries durations.
using Instant = MonotonicTimeline::time_point;

/// For io sides only (the include-rule test rejects it in any core/).
Instant monotonic_now();

constexpr double seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace baton
