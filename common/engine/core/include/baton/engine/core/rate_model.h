// How long a step will take, learnt from the steps that were measured. Pure: durations come in as
// values, so that the same measurements always give the same plans.
#pragma once

#include <array>
#include <cstdint>

#include "baton/base/time.h"
#include "baton/engine/core/step.h"

namespace baton::engine {

/// A step costs a part that depends on its number of rows (weights are read once a step, so few
/// rows cost nearly as much as one, and from some number on the cost is proportional) and a part
/// proportional to the keys that its rows see. The first is kept at powers of two and interpolated,
/// beyond the measured ones in proportion; each measurement moves both parts by their share of the
/// error.
class RateModel {
 public:
  /// Until something is measured: so long for each row and for each key that a row sees.
  struct Prior {
    Duration per_row = std::chrono::microseconds(500);
    Duration per_key = std::chrono::nanoseconds(20);
  };

  RateModel() : RateModel(Prior{}) {}
  explicit RateModel(const Prior& prior);

  Duration predict(const StepShape& shape) const;
  /// A step of this shape took so long. Shapes without rows are ignored. The next larger size is
  /// hoped to be a little better than it was, so that one bad measurement does not keep it from
  /// being planned for ever.
  void observe(const StepShape& shape, Duration took);

  /// The number of rows from which more rows a step raise the measured rows per second by less than
  /// 5 %; while the greatest size measured is also the best, twice that. 0 when nothing is
  /// measured.
  std::int64_t flat_rows() const;
  /// The greatest size measured; 0 when nothing is.
  std::int64_t measured_rows() const;

  /// Greatest count in [0, at_most] such that `shape` with rows [first_position, + count) is
  /// predicted within `limit`.
  std::int64_t rows_within(const StepShape& shape, std::int64_t first_position,
                           std::int64_t at_most, Duration limit) const;

 private:
  /// Powers of two from 1 to 32 768 rows.
  static constexpr std::size_t points = 16;

  void keep_consistent(std::size_t measured);
  void hope_for_larger(std::size_t measured);
  double rows_seconds(double rows) const;
  /// Seconds at a point, from the nearest measured points.
  double point_seconds(std::size_t point) const;

  double prior_per_row_;
  double per_key_;
  std::array<double, points> seconds_{};  ///< 0: not measured
};

}  // namespace baton::engine
