#include "baton/metrics/memory.h"

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace baton::metrics {
namespace {

using std::chrono::steady_clock;

/// Asks until `good` says so of a reading; false after a generous while.
template <typename Condition>
bool comes_true(MemoryWatch& watch, Condition good) {
  const auto deadline = steady_clock::now() + std::chrono::seconds(30);
  while (steady_clock::now() < deadline) {
    const std::optional<MemoryShare> share = watch.ask();
    if (share && good(*share)) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

TEST(MemoryWatch, AskingAgainBringsWhatHasChanged) {
  Registry registry("decode", "d0");
  MemoryWatch watch(registry);
  ASSERT_TRUE(comes_true(watch, [](const MemoryShare& s) { return s.proportional_bytes > 0; }));
  const std::uint64_t before = memory_share()->proportional_bytes;
  constexpr std::size_t size = 64 << 20;
  const std::vector<char> touched(size, 1);
  EXPECT_TRUE(comes_true(watch, [&](const MemoryShare& s) {
    return s.proportional_bytes > before + size / 2;
  })) << before;
}

TEST(MemoryWatch, IsExposed) {
  Registry registry("decode", "d0");
  MemoryWatch watch(registry);
  ASSERT_TRUE(comes_true(watch, [](const MemoryShare& s) { return s.proportional_bytes > 0; }));
  const std::string text = registry.expose();
  const std::size_t at = text.find("baton_memory_proportional_bytes{");
  ASSERT_NE(at, std::string::npos) << text;
  EXPECT_GT(std::stod(text.substr(text.find(' ', at))), 1e5);
}

}  // namespace
}  // namespace baton::metrics
