#include "baton/decode_node/core/space_queue.h"

#include <gtest/gtest.h>

namespace baton::decode_node {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const RequestId large{1, 1};
const RequestId small{2, 2};
const RequestId other{3, 3};

/// Asks every 100 ms from `from` to `to`, without success.
void keep_asking(SpaceQueue& queue, RequestId request, Instant from, Instant to) {
  for (Instant now = from; now <= to; now += milliseconds(100)) queue.refused(request, false, now);
}

TEST(SpaceQueue, NobodyWaitsForOneThatWaitsShortly) {
  const Instant start{};
  SpaceQueue queue;
  queue.refused(large, false, start);
  EXPECT_FALSE(queue.must_wait(small, false, start + milliseconds(900)));
}

TEST(SpaceQueue, SmallOnesLeaveTheBlocksToTheOneThatHasWaitedLong) {
  const Instant start{};
  SpaceQueue queue;
  keep_asking(queue, large, start, start + milliseconds(1200));
  EXPECT_TRUE(queue.must_wait(small, false, start + milliseconds(1200)));
  EXPECT_FALSE(queue.must_wait(large, false, start + milliseconds(1200)));
  queue.leave(large);
  EXPECT_FALSE(queue.must_wait(small, false, start + milliseconds(1200)));
}

TEST(SpaceQueue, OfTwoThatWaitTheFirstIsServedFirst) {
  const Instant start{};
  SpaceQueue queue;
  keep_asking(queue, large, start, start + seconds(3));
  keep_asking(queue, other, start + milliseconds(500), start + seconds(3));
  EXPECT_TRUE(queue.must_wait(other, false, start + seconds(3)));
  EXPECT_FALSE(queue.must_wait(large, false, start + seconds(3)));
}

TEST(SpaceQueue, APromptThatIsComputedGoesBeforeOnesThatWaitLonger) {
  const Instant start{};
  const Instant end = start + seconds(3);
  SpaceQueue queue;
  keep_asking(queue, large, start, end);
  keep_asking(queue, other, start + milliseconds(500), end);
  EXPECT_TRUE(queue.must_wait(other, false, end));
  EXPECT_FALSE(queue.must_wait(other, true, end));
  queue.refused(other, true, end);
  EXPECT_TRUE(queue.must_wait(large, false, end));
  EXPECT_TRUE(queue.must_wait(small, true, end));  // has waited less
  EXPECT_TRUE(queue.has_waited_long(other, end));
  EXPECT_FALSE(queue.has_waited_long(small, end));
}

TEST(SpaceQueue, OneThatNoLongerAsksHoldsNobodyUp) {
  const Instant start{};
  SpaceQueue queue;
  keep_asking(queue, large, start, start + milliseconds(1500));
  EXPECT_TRUE(queue.must_wait(small, false, start + milliseconds(1600)));
  EXPECT_FALSE(queue.must_wait(small, false, start + milliseconds(3600)));
}

TEST(SpaceQueue, ACrowdIsRememberedUpToABoundAndThoseInItGoOn) {
  const Instant start{};
  SpaceQueue queue;
  for (std::uint64_t i = 1; i <= 1024; ++i) queue.refused(RequestId{9, i}, false, start);
  queue.refused(large, false, start);  // there is no room for one more
  queue.refused(RequestId{9, 1}, false, start + milliseconds(1900));
  for (std::uint64_t i = 2; i <= 1024; ++i) queue.leave(RequestId{9, i});
  EXPECT_FALSE(queue.must_wait(RequestId{9, 1}, false, start + milliseconds(1900)));
  EXPECT_TRUE(queue.must_wait(large, false, start + milliseconds(1900)));
  queue.leave(RequestId{9, 1});
  queue.refused(small, false, start + milliseconds(1900));
  EXPECT_FALSE(
      queue.must_wait(small, false, start + milliseconds(1950)));  // large was not remembered
}

}  // namespace
}  // namespace baton::decode_node
