// A request's time, cut into parts (P8). Pure: what was measured comes in, the parts go out.
#pragma once

#include "baton/base/time.h"
#include "baton/router/core/table_types.h"

namespace baton::router {

/// total = queue + prefill + (handoff_exposed − handoff_travel) + first_decode + decode +
/// unaccounted. Each summand but the last was measured on one clock, and no two overlap.
struct RequestTimes {
  Duration queue{};            ///< the router's until Prefill is sent, then the prefill node's
  Duration prefill{};          ///< first row planned → token 0 sampled
  Duration handoff_exposed{};  ///< token 0 sampled → Accepted received, on the prefill node
  /// Of it, Commit and Accepted on their way: what the prefill node waited for an answer less what
  /// the decode node needed for it. Accepted's way lies within first_decode, so this is taken away
  /// before the parts are added. How it divides between the two no clock can tell; Commit's way is
  /// therefore left unaccounted, like that of every other message.
  Duration handoff_travel{};
  Duration first_decode{};  ///< Accepted sent → end of the first row, on the decode node
  Duration decode{};        ///< from there to the end of the last row
  /// What is in no part, or (were the sum greater than the whole) in two.
  Duration unaccounted{};
  Duration total{};
};

/// `total`: from the request's last byte to its answer's.
RequestTimes request_times(const RequestFacts& facts, Duration total);

}  // namespace baton::router
