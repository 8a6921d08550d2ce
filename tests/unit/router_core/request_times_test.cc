#include "baton/router/core/request_times.h"

#include <gtest/gtest.h>

namespace baton::router {
namespace {

using std::chrono::milliseconds;

/// 1 ms in the router's queue and 2 ms in the node's, 30 ms of prefill; the commit was answered
/// after 4 ms, of which the decode node held it for 1 ms; 5 ms to the first row, 50 ms of rows.
RequestFacts facts() {
  RequestFacts facts;
  facts.times.queue = milliseconds(3);
  facts.times.prefill = milliseconds(30);
  facts.times.handoff_exposed = milliseconds(6);
  facts.times.commit_held = milliseconds(1);
  facts.commit_answered = milliseconds(4);
  facts.times.first_decode = milliseconds(5);
  facts.times.decode = milliseconds(50);
  return facts;
}

TEST(RequestTimes, TheCommitsWayIsInNoPartTwice) {
  const RequestTimes times = request_times(facts(), milliseconds(100));
  EXPECT_EQ(times.handoff_exposed, milliseconds(6));
  EXPECT_EQ(times.handoff_travel, milliseconds(3));
  // 100 - (3 + 30 + (6 - 3) + 5 + 50)
  EXPECT_EQ(times.unaccounted, milliseconds(9));
}

TEST(RequestTimes, PartsThatAreLongerThanTheWholeAreUnaccountedToo) {
  EXPECT_EQ(request_times(facts(), milliseconds(80)).unaccounted, milliseconds(11));
}

TEST(RequestTimes, ClocksThatRunApartMakeNoNegativeWay) {
  RequestFacts skewed = facts();
  skewed.times.commit_held = milliseconds(5);
  const RequestTimes times = request_times(skewed, milliseconds(100));
  EXPECT_EQ(times.handoff_travel, milliseconds(0));
  EXPECT_EQ(times.unaccounted, milliseconds(6));
}

}  // namespace
}  // namespace baton::router
