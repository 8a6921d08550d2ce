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
  for (Instant now = from; now <= to; now += milliseconds(100)) queue.refused(request, now);
}

TEST(SpaceQueue, NobodyWaitsForOneThatWaitsShortly) {
  const Instant start{};
  SpaceQueue queue;
  queue.refused(large, start);
  EXPECT_FALSE(queue.must_wait(small, start + milliseconds(900)));
}

TEST(SpaceQueue, SmallOnesLeaveTheBlocksToTheOneThatHasWaitedLong) {
  const Instant start{};
  SpaceQueue queue;
  keep_asking(queue, large, start, start + milliseconds(1200));
  EXPECT_TRUE(queue.must_wait(small, start + milliseconds(1200)));
  EXPECT_FALSE(queue.must_wait(large, start + milliseconds(1200)));
  queue.leave(large);
  EXPECT_FALSE(queue.must_wait(small, start + milliseconds(1200)));
}

TEST(SpaceQueue, OfTwoThatWaitTheFirstIsServedFirst) {
  const Instant start{};
  SpaceQueue queue;
  keep_asking(queue, large, start, start + seconds(3));
  keep_asking(queue, other, start + milliseconds(500), start + seconds(3));
  EXPECT_TRUE(queue.must_wait(other, start + seconds(3)));
  EXPECT_FALSE(queue.must_wait(large, start + seconds(3)));
}

TEST(SpaceQueue, OneThatNoLongerAsksHoldsNobodyUp) {
  const Instant start{};
  SpaceQueue queue;
  keep_asking(queue, large, start, start + milliseconds(1500));
  EXPECT_TRUE(queue.must_wait(small, start + milliseconds(1600)));
  EXPECT_FALSE(queue.must_wait(small, start + milliseconds(3600)));
}

TEST(SpaceQueue, ACrowdIsRememberedUpToABoundAndThoseInItGoOn) {
  const Instant start{};
  SpaceQueue queue;
  for (std::uint64_t i = 1; i <= 1024; ++i) queue.refused(RequestId{9, i}, start);
  queue.refused(large, start);  // there is no room for one more
  queue.refused(RequestId{9, 1}, start + milliseconds(1900));
  for (std::uint64_t i = 2; i <= 1024; ++i) queue.leave(RequestId{9, i});
  EXPECT_FALSE(queue.must_wait(RequestId{9, 1}, start + milliseconds(1900)));
  EXPECT_TRUE(queue.must_wait(large, start + milliseconds(1900)));
  queue.leave(RequestId{9, 1});
  queue.refused(small, start + milliseconds(1900));
  EXPECT_FALSE(queue.must_wait(small, start + milliseconds(1950)));  // large was not remembered
}

}  // namespace
}  // namespace baton::decode_node
