#include "baton/handoff/core/owners.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace baton::handoff {
namespace {

using std::chrono::seconds;

const Instant start{};
const OwnerRef first{NodeId("r"), Epoch(1)};
const OwnerRef second{NodeId("r"), Epoch(2)};

TEST(Owners, ANewLifeOfARouterEndsTheOldOne) {
  Owners owners;
  EXPECT_FALSE(owners.heard_from(first, seconds(5), start).has_value());
  EXPECT_TRUE(owners.is_current(first));
  EXPECT_EQ(owners.heard_from(second, seconds(5), start), first);
  EXPECT_FALSE(owners.is_current(first));
}

TEST(Owners, ALeaseLastsFromTheLastHeartbeat) {
  Owners owners;
  owners.heard_from(first, seconds(5), start);
  owners.heard_from(first, seconds(5), start + seconds(4));
  EXPECT_THAT(owners.take_expired(start + seconds(8)), testing::IsEmpty());
  EXPECT_THAT(owners.take_expired(start + seconds(9)), testing::ElementsAre(first));
  EXPECT_FALSE(owners.is_current(first));
}

TEST(Owners, AMessageAfterTheLeaseMakesTheOwnerKnownAgain) {
  Owners owners;
  owners.heard_from(first, seconds(5), start);
  owners.take_expired(start + seconds(6));
  EXPECT_TRUE(owners.accept(first, seconds(5), start + seconds(7)));
  EXPECT_TRUE(owners.is_current(first));
  EXPECT_FALSE(owners.accept(second, seconds(5), start + seconds(7)));
}

protocol::AttemptKey key(std::uint64_t request, std::uint32_t prefill, std::uint32_t decode) {
  return {{request, 1}, {prefill, decode}};
}

TEST(Tombstones, AnswerEqualAndLowerLegsOnly) {
  Tombstones stones(10);
  stones.put(key(1, 2, 2), protocol::Gone{key(1, 2, 2)}, start + seconds(10));
  EXPECT_NE(stones.find(key(1, 2, 2)), nullptr);
  EXPECT_NE(stones.find(key(1, 1, 2)), nullptr);
  EXPECT_EQ(stones.find(key(1, 3, 2)), nullptr);
  EXPECT_EQ(stones.find(key(1, 2, 3)), nullptr);
  EXPECT_EQ(stones.find(key(2, 1, 1)), nullptr);
}

TEST(Tombstones, EndAtTheirTimeAndTheOldestGoesWhenFull) {
  Tombstones stones(2);
  for (std::uint64_t request = 1; request <= 3; ++request) {
    stones.put(key(request, 1, 1), protocol::Gone{key(request, 1, 1)}, start + seconds(10));
  }
  EXPECT_EQ(stones.dropped(), 1u);
  EXPECT_EQ(stones.find(key(1, 1, 1)), nullptr);
  EXPECT_NE(stones.find(key(3, 1, 1)), nullptr);
  stones.tick(start + seconds(11));
  EXPECT_EQ(stones.size(), 0u);
}

}  // namespace
}  // namespace baton::handoff
