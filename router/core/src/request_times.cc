#include "baton/router/core/request_times.h"

#include <algorithm>
#include <chrono>

namespace baton::router {

RequestTimes request_times(const RequestFacts& facts, Duration total) {
  const protocol::PhaseTimes& measured = facts.times;
  RequestTimes out;
  out.queue = measured.queue;
  out.prefill = measured.prefill;
  out.handoff_exposed = measured.handoff_exposed;
  // Two clocks that run at slightly different rates must not make a short way negative.
  out.handoff_travel = std::max(Duration{}, facts.commit_answered - measured.commit_held);
  out.first_decode = measured.first_decode;
  out.decode = measured.decode;
  out.total = total;
  const Duration handoff = out.handoff_exposed - out.handoff_travel;
  const Duration accounted = out.queue + out.prefill + handoff + out.first_decode + out.decode;
  out.unaccounted = std::chrono::abs(total - accounted);
  return out;
}

}  // namespace baton::router
