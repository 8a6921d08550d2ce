#include "baton/net/io/event_loop.h"

#include <functional>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "loop_thread.h"

namespace baton::net {
namespace {

using namespace std::chrono_literals;

/// Until `done`, and then what is still there.
void run_until(EventLoop& loop, const std::function<bool()>& done) {
  const Instant end = monotonic_now() + testing::test_patience;
  while (!done() && monotonic_now() < end) loop.run_one(100ms);
  while (loop.run_one(30ms)) {
  }
}

TEST(EventLoop, PostedCallsRunInOrderAndNeverInsidePost) {
  EventLoop loop;
  std::vector<int> order;
  loop.post([&] {
    loop.post([&] { order.push_back(3); });
    order.push_back(1);
  });
  loop.post([&] { order.push_back(2); });
  EXPECT_TRUE(order.empty());
  run_until(loop, [&] { return order.size() == 3; });
  EXPECT_EQ(order, (std::vector{1, 2, 3}));
}

TEST(EventLoop, EveryThreadMayPost) {
  testing::LoopThread thread;
  int count = 0;
  std::vector<std::thread> posters;
  for (int i = 0; i < 4; ++i) {
    posters.emplace_back([&] {
      for (int k = 0; k < 1000; ++k) thread.loop().post([&count] { ++count; });
    });
  }
  for (auto& poster : posters) poster.join();
  EXPECT_EQ(thread.on_loop([&] { return count; }), 4000);
}

TEST(EventLoop, AStopBeforeRunIsNotLostAndRunMayBeCalledAgain) {
  EventLoop loop;
  loop.stop();
  loop.run();
  int count = 0;
  loop.post([&] {
    ++count;
    loop.stop();
  });
  loop.run();
  EXPECT_EQ(count, 1);
}

TEST(Timer, RunsOnceAfterItsDelay) {
  EventLoop loop;
  int count = 0;
  const Instant start = monotonic_now();
  Timer timer = loop.schedule_after(20ms, [&] { ++count; });
  EXPECT_TRUE(timer.pending());
  run_until(loop, [&] { return count == 1; });
  EXPECT_EQ(count, 1);
  EXPECT_FALSE(timer.pending());
  EXPECT_GE(monotonic_now() - start, 20ms);
}

TEST(Timer, ItsEndOrANewTimerInItsPlaceCancelsIt) {
  EventLoop loop;
  int first = 0;
  int second = 0;
  {
    const Timer dropped = loop.schedule_after(1ms, [&] { ++first; });
  }
  Timer timer = loop.schedule_after(1ms, [&] { ++first; });
  timer = loop.schedule_after(1ms, [&] { ++second; });
  run_until(loop, [&] { return second == 1; });
  EXPECT_EQ(first, 0);
  EXPECT_EQ(second, 1);
}

TEST(Timer, CancelledAfterItsTimeHasComeButBeforeItsCallStillDoesNotRun) {
  EventLoop loop;
  int count = 0;
  bool killed = false;
  Timer victim;
  const Timer killer = loop.schedule_after(1ms, [&] {
    victim.cancel();
    killed = true;
  });
  victim = loop.schedule_after(1ms, [&] { ++count; });
  std::this_thread::sleep_for(5ms);  // both have expired when the loop looks
  run_until(loop, [&] { return killed; });
  EXPECT_EQ(count, 0);
}

TEST(Timer, APeriodicOneGoesOnUntilItIsCancelledAlsoFromInside) {
  EventLoop loop;
  int count = 0;
  Timer timer;
  timer = loop.schedule_every(1ms, [&] {
    if (++count == 3) timer.cancel();
  });
  run_until(loop, [&] { return count == 3; });
  EXPECT_EQ(count, 3);
}

TEST(Timer, CallsThatWereMissedAreNotMadeUpFor) {
  EventLoop loop;
  int count = 0;
  const Timer timer = loop.schedule_every(5ms, [&] { ++count; });
  std::this_thread::sleep_for(100ms);
  const Instant start = monotonic_now();
  while (count < 3 && loop.run_one(200ms)) {
  }
  // The late one at once, perhaps the next, and then one interval later.
  EXPECT_GE(monotonic_now() - start, 4ms);
}

TEST(Timer, ItsCallMayReplaceItself) {
  EventLoop loop;
  std::vector<int> order;
  Timer timer;
  timer = loop.schedule_after(1ms, [&] {
    order.push_back(1);
    timer = loop.schedule_after(1ms, [&] { order.push_back(2); });
  });
  run_until(loop, [&] { return order.size() == 2; });
  EXPECT_EQ(order, (std::vector{1, 2}));
}

}  // namespace
}  // namespace baton::net
