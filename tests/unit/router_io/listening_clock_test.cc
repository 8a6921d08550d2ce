#include "listening_clock.h"

#include <gtest/gtest.h>

namespace baton::router {
namespace {

using namespace std::chrono_literals;

constexpr Instant start = Instant(1h);

TEST(ListeningClock, RunsWithTheMachinesClockWhileTheLoopTurns) {
  ListeningClock clock(100ms);
  const Instant begin = clock.now();
  for (Duration passed = 0ms; passed <= 3s; passed += 20ms) clock.turn(start + passed);
  EXPECT_EQ(clock.now() - begin, 3s);
}

TEST(ListeningClock, CountsATurnThatWasHeldBackAsTheLongest) {
  ListeningClock clock(100ms);
  clock.turn(start);
  const Instant begin = clock.now();
  clock.turn(start + 20ms);
  clock.turn(start + 20ms + 1h);
  EXPECT_EQ(clock.now() - begin, 120ms);
  clock.turn(start + 40ms + 1h);
  EXPECT_EQ(clock.now() - begin, 140ms);
}

TEST(ListeningClock, BeginsWithItsFirstTurn) {
  ListeningClock clock(100ms);
  const Instant begin = clock.now();
  clock.turn(start);
  EXPECT_EQ(clock.now(), begin);
}

}  // namespace
}  // namespace baton::router
