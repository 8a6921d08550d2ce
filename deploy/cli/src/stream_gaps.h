// The gaps between the pieces of streams. Percentiles of gaps hide a stall: many short gaps
// outweigh one long one. What a reader notices is the longest gap and the time spent waiting.
#pragma once

#include <span>
#include <vector>

#include "baton/base/time.h"

namespace baton::cli {

/// When each piece of one stream came, ascending.
using StreamTimes = std::vector<Instant>;

struct GapReport {
  Duration longest{};
  Duration median{};
  double stalled_share = 0;      ///< of the streams' time, in gaps above 5 times `threshold_median`
  double half_second_share = 0;  ///< in gaps above 500 ms
  double pieces_per_second = 0;  ///< of all streams together
  std::size_t gaps = 0;
};

/// Of the gaps that end in [from, to). `threshold_median` is the median that counts as usual, that
/// of an undisturbed run; zero: this run's own. Streams with fewer than two pieces have no gap.
GapReport gaps_of(std::span<const StreamTimes> streams, Instant from, Instant to,
                  Duration threshold_median = Duration::zero());

}  // namespace baton::cli
