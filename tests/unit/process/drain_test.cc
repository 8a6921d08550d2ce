// The two signals that end a server program.
#include "baton/process/drain.h"

#include <csignal>

namespace baton::process {
namespace {

using namespace std::chrono_literals;  // NOLINT: durations in every test

TEST(Drain, TheFirstSignalBeginsItAndTheSecondStopsTheLoop) {
  net::EventLoop loop;
  int begun = 0;
  const Drain drain(loop, [&] {
    ++begun;
    EXPECT_TRUE(drain.since().has_value());
    std::raise(SIGINT);
  });
  EXPECT_FALSE(drain.since());
  EXPECT_FALSE(drain.has_lasted(0s, monotonic_now()));
  std::raise(SIGTERM);
  loop.run();
  EXPECT_EQ(begun, 1);
  const Instant since = drain.since().value();
  EXPECT_TRUE(drain.has_lasted(2s, since + 2s));
  EXPECT_FALSE(drain.has_lasted(2s, since + 1s));
}

}  // namespace
}  // namespace baton::process
