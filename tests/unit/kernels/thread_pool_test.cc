#include "baton/kernels/thread_pool.h"

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "support/little_space.h"

namespace baton::kernels {
namespace {

TEST(ThreadPool, RunsEachTaskOnceForAnyCountAndAnyNumberOfThreads) {
  for (int threads = 1; threads <= 4; ++threads) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    for (const int count : {0, 1, 2, 3, 7, 64, 1000}) {
      std::vector<std::atomic<int>> seen(static_cast<std::size_t>(count));
      pool.run(count, [&](int i) { ++seen[static_cast<std::size_t>(i)]; });
      for (const std::atomic<int>& times : seen) ASSERT_EQ(times.load(), 1);
    }
  }
}

TEST(ThreadPool, ShortLoopsOneAfterTheOtherNeverMixTheirTasks) {
  ThreadPool pool(3);
  for (int round = 0; round < 3000; ++round) {
    std::atomic<int> sum{0};
    const int count = 1 + round % 5;
    pool.run(count, [&sum, round](int i) { sum += round + i; });
    ASSERT_EQ(sum.load(), count * round + count * (count - 1) / 2);
  }
}

TEST(ThreadPool, ParkedWorkersWakeUpAgain) {
  ThreadPool pool(2);
  for (int round = 0; round < 3; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    // Two tasks that wait for each other can only end on two threads.
    std::atomic<int> arrived{0};
    pool.run(2, [&](int) {
      ++arrived;
      while (arrived.load() < 2) std::this_thread::yield();
    });
    EXPECT_EQ(arrived.load(), 2);
  }
}

TEST(ThreadPool, EveryThreadFlushesDenormals) {
  ThreadPool pool(2);
  std::atomic<int> arrived{0};
  std::atomic<int> not_flushed{0};
  volatile float tiny = 0x1p-126F;
  pool.run(2, [&](int) {
    ++arrived;
    while (arrived.load() < 2) std::this_thread::yield();
    const volatile float half = tiny * 0.5F;
    if (half != 0) ++not_flushed;
  });
  EXPECT_EQ(not_flushed.load(), 0);
  const volatile float half = tiny * 0.5F;
  EXPECT_NE(half, 0) << "the caller's own mode comes back after run()";
}

/// 0 when a pool that asks for more threads than there is space for has fewer and works.
int too_large_pool() {
  ThreadPool pool(1024);
  if (pool.threads() < 2 || pool.threads() >= 1024) return 1;
  std::atomic<int> sum{0};
  pool.run(100, [&](int i) { sum += i; });
  return sum.load() == 4950 ? 0 : 2;
}

TEST(ThreadPool, HasFewerThreadsWhereTheSystemHasNoMore) {
  const int result = test::run_in_little_space(too_large_pool);
  if (result == test::not_limited) GTEST_SKIP() << "address space cannot be limited here";
  EXPECT_EQ(result, 0);
}

}  // namespace
}  // namespace baton::kernels
