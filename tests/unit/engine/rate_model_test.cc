#include "baton/engine/core/rate_model.h"

#include <algorithm>
#include <cmath>
#include <random>

#include <gtest/gtest.h>

namespace baton::engine {
namespace {

/// A machine with a fixed cost per step, a cost per row and a cost per key.
Duration machine(const StepShape& shape) {
  const double rows = static_cast<double>(shape.rows);
  const double us = std::max(4'000.0, 300.0 * rows) + 0.05 * static_cast<double>(shape.keys);
  return std::chrono::nanoseconds(static_cast<std::int64_t>(us * 1'000));
}

RateModel trained() {
  RateModel model;
  std::mt19937_64 random(3);
  for (int i = 0; i < 400; ++i) {
    StepShape shape;
    const auto rows = std::int64_t{1} << (random() % 10);
    shape.add(static_cast<std::int64_t>(random() % 4'000), rows);
    model.observe(shape, machine(shape));
  }
  return model;
}

TEST(RateModel, PredictsAMachineItHasMeasuredWithinAQuarter) {
  const RateModel model = trained();
  for (const std::int64_t rows : {1, 3, 16, 40, 200, 512}) {
    for (const std::int64_t first : {0, 500, 3'000}) {
      StepShape shape;
      shape.add(first, rows);
      const double ratio = seconds(model.predict(shape)) / seconds(machine(shape));
      EXPECT_GT(ratio, 0.75) << rows << " rows at " << first;
      EXPECT_LT(ratio, 1.34) << rows << " rows at " << first;
    }
  }
}

TEST(RateModel, TheFlatPartBeginsWhereMoreRowsBuyNoMoreRate) {
  EXPECT_EQ(RateModel().flat_rows(), 0);
  const std::int64_t rows = trained().flat_rows();
  EXPECT_GE(rows, 16);
  EXPECT_LE(rows, 64);
  RateModel rising;
  for (std::int64_t n : {1, 2, 4}) {
    StepShape shape;
    shape.add(0, n);
    rising.observe(shape, std::chrono::milliseconds(5));
  }
  EXPECT_EQ(rising.flat_rows(), 8) << "sizes beyond the measured ones are tried";
}

TEST(RateModel, RowsWithinFindsTheGreatestCountUnderTheLimit) {
  const RateModel model = trained();
  const Duration limit = std::chrono::milliseconds(50);
  const std::int64_t rows = model.rows_within({}, 100, 4'096, limit);
  StepShape fits;
  fits.add(100, rows);
  StepShape beyond;
  beyond.add(100, rows + 1);
  EXPECT_LE(model.predict(fits), limit);
  EXPECT_GT(model.predict(beyond), limit);
  EXPECT_EQ(model.rows_within({}, 0, 5, limit), 5);
  EXPECT_EQ(model.rows_within({.rows = 5'000}, 0, 5, limit), 0);
}

TEST(RateModel, OneOutlierDoesNotTurnThePlanOver) {
  RateModel model = trained();
  StepShape shape;
  shape.add(100, 64);
  const double before = seconds(model.predict(shape));
  model.observe(shape, std::chrono::seconds(60));
  EXPECT_LE(seconds(model.predict(shape)), 2.01 * before);
}

/// Steps of sizes that are planned by what was measured of them.
TEST(RateModel, ASizeThatWasMeasuredBadOnceIsTriedAgain) {
  RateModel model;
  const auto step = [](std::int64_t rows) { return std::chrono::milliseconds(100 + rows); };
  for (const std::int64_t rows : {8, 16}) model.observe({rows, 0}, step(rows));
  model.observe({32, 0}, std::chrono::seconds(1));  // a neighbour
  EXPECT_LT(model.flat_rows(), 32);
  int steps = 0;
  for (; model.flat_rows() < 64 && steps < 1'000; ++steps) {
    const std::int64_t rows = model.flat_rows();
    model.observe({rows, 0}, step(rows));
  }
  EXPECT_LT(steps, 200);
}

TEST(RateModel, ASizeThatGainsNothingIsSeldomTried) {
  RateModel model;
  int larger = 0;
  for (int i = 0; i < 1'000; ++i) {
    const std::int64_t rows = std::max<std::int64_t>(model.flat_rows(), 16);
    larger += rows > 16 ? 1 : 0;
    model.observe({rows, 0}, std::chrono::milliseconds(5 * rows));
  }
  EXPECT_GT(larger, 0);
  EXPECT_LT(larger, 100);
}

TEST(RateModel, AStaleMeasurementOfASizeThatIsNoLongerPlannedGivesWay) {
  RateModel model;
  StepShape large;
  large.add(0, 512);
  model.observe(large, std::chrono::seconds(20));
  StepShape small;
  small.add(0, 64);
  model.observe(small, std::chrono::seconds(2));
  for (int i = 0; i < 50; ++i) model.observe(small, std::chrono::milliseconds(64));
  EXPECT_LE(model.predict(large), std::chrono::milliseconds(600));
}

TEST(RateModel, SizesBetweenTheKeptOnesConvergeToo) {
  RateModel model;
  StepShape shape;
  shape.add(0, 84);
  model.observe(shape, std::chrono::milliseconds(500));
  for (int i = 0; i < 60; ++i) model.observe(shape, std::chrono::milliseconds(50));
  EXPECT_NEAR(seconds(model.predict(shape)), 0.05, 0.005);
}

TEST(RateModel, BeyondTheMeasuredSizesItIsNeverOptimistic) {
  RateModel model;
  StepShape shape;
  shape.add(0, 64);
  model.observe(shape, std::chrono::milliseconds(64));
  StepShape larger;
  larger.add(0, 640);
  EXPECT_GE(model.predict(larger), std::chrono::milliseconds(640));
}

TEST(RateModel, BelowTheMeasuredSizesItIsInProportionUntilOneIsMeasured) {
  RateModel model;
  model.observe({512, 0}, std::chrono::milliseconds(1280));
  EXPECT_NEAR(seconds(model.predict({1, 0})), 0.0025, 1e-6);
  EXPECT_NEAR(seconds(model.predict({16, 0})), 0.04, 1e-6);
  model.observe({16, 0}, std::chrono::milliseconds(120));
  EXPECT_NEAR(seconds(model.predict({16, 0})), 0.12, 1e-6);
  EXPECT_NEAR(seconds(model.predict({8, 0})), 0.06, 1e-6);
}

}  // namespace
}  // namespace baton::engine
