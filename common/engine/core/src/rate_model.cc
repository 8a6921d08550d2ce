#include "baton/engine/core/rate_model.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "baton/base/check.h"

namespace baton::engine {
namespace {

// How much of an error one measurement corrects: a few steps follow a change, one outlier (a page
// fault, a neighbour) does not turn the plan over.
constexpr double correction = 0.3;
// One measurement changes no part by more than this factor.
constexpr double largest_change = 2.0;
constexpr double flat_gain = 1.05;
// What the next larger size is hoped to gain, just enough to be planned again, and how much of the
// way to that hope one measurement goes: it is tried again after some dozens.
constexpr double hoped_gain = 1.06;
constexpr double hope = 0.03;

double rows_at(std::size_t point) { return static_cast<double>(std::int64_t{1} << point); }

/// The power of two that is nearest to `rows`.
std::size_t nearest_point(std::int64_t rows) {
  const auto below = static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(rows)) - 1);
  const std::int64_t size = std::int64_t{1} << below;
  return rows - size > size / 2 ? below + 1 : below;
}

double corrected(double value, double delta) {
  return std::clamp(value + delta, value / largest_change, value * largest_change);
}

}  // namespace

RateModel::RateModel(const Prior& prior)
    : prior_per_row_(seconds(prior.per_row)), per_key_(seconds(prior.per_key)) {
  BATON_CHECK(prior_per_row_ > 0 && per_key_ > 0);
}

double RateModel::point_seconds(std::size_t point) const {
  if (seconds_[point] > 0) return seconds_[point];
  std::size_t below = point;
  while (below > 0 && seconds_[below] == 0) --below;
  std::size_t above = point;
  while (above + 1 < points && seconds_[above] == 0) ++above;
  const double low = seconds_[below];
  const double high = seconds_[above];
  if (low > 0 && high > 0) {
    const double share = (rows_at(point) - rows_at(below)) / (rows_at(above) - rows_at(below));
    return low + (high - low) * share;
  }
  // Beyond what was measured: in proportion. Upwards that is never optimistic; downwards it is, so
  // that fewer rows get planned and measured where large steps came first.
  if (low > 0) return low * rows_at(point) / rows_at(below);
  if (high > 0) return high * rows_at(point) / rows_at(above);
  return prior_per_row_ * rows_at(point);
}

double RateModel::rows_seconds(double rows) const {
  if (rows <= 0) return 0;
  const auto below = std::min<std::size_t>(
      points - 1, static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(rows)) - 1));
  const double low = point_seconds(below);
  if (below + 1 == points) return low * rows / rows_at(below);
  const double share = (rows - rows_at(below)) / rows_at(below);
  return low + (point_seconds(below + 1) - low) * share;
}

Duration RateModel::predict(const StepShape& shape) const {
  const double total =
      rows_seconds(static_cast<double>(shape.rows)) + per_key_ * static_cast<double>(shape.keys);
  return Duration(static_cast<Duration::rep>(std::ceil(total * 1e9)));
}

void RateModel::observe(const StepShape& shape, Duration took) {
  if (shape.rows <= 0 || took <= Duration::zero()) return;
  const auto rows = static_cast<double>(shape.rows);
  const double keys_part = per_key_ * static_cast<double>(shape.keys);
  const double measured = seconds(took);
  const std::size_t nearest = std::min(points - 1, nearest_point(shape.rows));
  if (seconds_[nearest] == 0) {
    // The first measurement of this size is taken whole, less what the keys are thought to cost.
    const double own = std::max(measured - keys_part, measured / largest_change);
    seconds_[nearest] = own * rows_at(nearest) / rows;
    keep_consistent(nearest);
    return;
  }
  const double rows_part = rows_seconds(rows);
  const double error = correction * (measured - rows_part - keys_part);
  const double norm = rows_part * rows_part + keys_part * keys_part;
  seconds_[nearest] = corrected(seconds_[nearest], seconds_[nearest] * error * rows_part / norm);
  if (keys_part > 0) per_key_ = corrected(per_key_, per_key_ * error * keys_part / norm);
  keep_consistent(nearest);
  hope_for_larger(nearest);
}

void RateModel::hope_for_larger(std::size_t measured) {
  std::size_t next = measured + 1;
  while (next < points && seconds_[next] == 0) ++next;
  if (next == points) return;
  const double hoped = seconds_[measured] * rows_at(next) / rows_at(measured) / hoped_gain;
  if (hoped < seconds_[next]) seconds_[next] += hope * (hoped - seconds_[next]);
}

/// More rows cost at least as much, and at most in proportion: a size that is no longer planned
/// cannot keep a value that newer measurements of other sizes contradict.
void RateModel::keep_consistent(std::size_t measured) {
  for (std::size_t i = 0; i < points; ++i) {
    if (seconds_[i] == 0) continue;
    const double in_proportion = seconds_[measured] * rows_at(i) / rows_at(measured);
    seconds_[i] = std::clamp(seconds_[i], std::min(in_proportion, seconds_[measured]),
                             std::max(in_proportion, seconds_[measured]));
  }
}

std::int64_t RateModel::measured_rows() const {
  for (std::size_t point = points; point > 0; --point) {
    if (seconds_[point - 1] > 0) return std::int64_t{1} << (point - 1);
  }
  return 0;
}

std::int64_t RateModel::flat_rows() const {
  double best_rate = 0;
  std::size_t last = points;
  for (std::size_t i = 0; i < points; ++i) {
    if (seconds_[i] == 0) continue;
    best_rate = std::max(best_rate, rows_at(i) / seconds_[i]);
    last = i;
  }
  if (last == points) return 0;
  for (std::size_t i = 0; i < last; ++i) {
    if (seconds_[i] > 0 && rows_at(i) / seconds_[i] * flat_gain >= best_rate) {
      return std::int64_t{1} << i;
    }
  }
  return std::int64_t{2} << last;
}

std::int64_t RateModel::rows_within(const StepShape& shape, std::int64_t first_position,
                                    std::int64_t at_most, Duration limit) const {
  std::int64_t fits = 0;
  std::int64_t beyond = at_most + 1;
  while (beyond - fits > 1) {
    const std::int64_t middle = fits + (beyond - fits) / 2;
    StepShape trial = shape;
    trial.add(first_position, middle);
    (predict(trial) <= limit ? fits : beyond) = middle;
  }
  return fits;
}

}  // namespace baton::engine
