#include "stream_gaps.h"

#include <algorithm>

#include "median.h"

namespace baton::cli {

GapReport gaps_of(std::span<const StreamTimes> streams, Instant from, Instant to,
                  Duration threshold_median) {
  std::vector<Duration> gaps;
  for (const StreamTimes& times : streams) {
    for (std::size_t i = 1; i < times.size(); ++i) {
      if (times[i] >= from && times[i] < to) gaps.push_back(times[i] - times[i - 1]);
    }
  }
  GapReport report;
  report.gaps = gaps.size();
  if (gaps.empty()) return report;
  report.median = median(gaps);
  report.longest = *std::max_element(gaps.begin(), gaps.end());
  const Duration usual = threshold_median > Duration::zero() ? threshold_median : report.median;
  Duration all{};
  Duration stalled{};
  Duration above_half_second{};
  for (const Duration gap : gaps) {
    all += gap;
    if (gap > 5 * usual) stalled += gap;
    if (gap > std::chrono::milliseconds(500)) above_half_second += gap;
  }
  report.stalled_share = seconds(stalled) / seconds(all);
  report.half_second_share = seconds(above_half_second) / seconds(all);
  report.pieces_per_second = static_cast<double>(gaps.size()) / seconds(to - from);
  return report;
}

}  // namespace baton::cli
