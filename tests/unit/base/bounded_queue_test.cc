#include "baton/base/bounded_queue.h"

#include <thread>

#include <gtest/gtest.h>

namespace baton {
namespace {

TEST(BoundedQueue, RefusesWhenFullAndLosesNothing) {
  BoundedQueue<int> queue(2);
  EXPECT_TRUE(queue.try_push(1));
  EXPECT_TRUE(queue.try_push(2));
  EXPECT_FALSE(queue.try_push(3));
  EXPECT_EQ(queue.drain(), (std::vector<int>{1, 2}));
  EXPECT_TRUE(queue.try_push(4));
  EXPECT_EQ(queue.try_pop(), 4);
}

TEST(BoundedQueue, CloseWakesAWaitingConsumer) {
  BoundedQueue<int> queue(1);
  std::thread consumer([&] { EXPECT_FALSE(queue.pop_for(std::chrono::hours(1)).has_value()); });
  queue.close();
  consumer.join();
  EXPECT_FALSE(queue.try_push(1));
}

}  // namespace
}  // namespace baton
