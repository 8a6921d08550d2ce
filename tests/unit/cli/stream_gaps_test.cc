#include "stream_gaps.h"

#include <gtest/gtest.h>

namespace baton::cli {
namespace {

using std::chrono::milliseconds;

Instant at(int ms) { return Instant(milliseconds(ms)); }

TEST(StreamGaps, OneStallAmongShortGapsIsSeen) {
  // Ten gaps of 10 ms, one of 900 ms.
  StreamTimes times;
  for (int i = 0; i <= 10; ++i) times.push_back(at(10 * i));
  times.push_back(at(1000));
  const GapReport report = gaps_of(std::vector<StreamTimes>{times}, at(0), at(2000));
  EXPECT_EQ(report.gaps, 11U);
  EXPECT_EQ(report.median, milliseconds(10));
  EXPECT_EQ(report.longest, milliseconds(900));
  EXPECT_DOUBLE_EQ(report.stalled_share, 0.9);
  EXPECT_DOUBLE_EQ(report.half_second_share, 0.9);
  EXPECT_DOUBLE_EQ(report.pieces_per_second, 5.5);
}

TEST(StreamGaps, WhatIsUsualCanComeFromAnotherRun) {
  const StreamTimes times = {at(0), at(40), at(80), at(120)};
  const std::vector<StreamTimes> streams = {times};
  EXPECT_DOUBLE_EQ(gaps_of(streams, at(0), at(200)).stalled_share, 0);
  EXPECT_DOUBLE_EQ(gaps_of(streams, at(0), at(200), milliseconds(8)).stalled_share, 0);
  EXPECT_DOUBLE_EQ(gaps_of(streams, at(0), at(200), milliseconds(7)).stalled_share, 1);
}

TEST(StreamGaps, OnlyGapsThatEndInTheSpanCountAndStreamsStayApart) {
  const std::vector<StreamTimes> streams = {{at(0), at(100), at(200)}, {at(150)}, {}};
  const GapReport report = gaps_of(streams, at(150), at(250));
  EXPECT_EQ(report.gaps, 1U);
  EXPECT_EQ(report.longest, milliseconds(100));
  EXPECT_EQ(gaps_of(streams, at(300), at(400)).gaps, 0U);
}

}  // namespace
}  // namespace baton::cli
