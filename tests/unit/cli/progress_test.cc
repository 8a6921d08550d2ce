#include "progress.h"

#include <gtest/gtest.h>

namespace baton::cli {
namespace {

TEST(Progress, ABarIsFilledByItsShareAndNeverBeyondItsEnds) {
  EXPECT_EQ(bar_text(0.5), "[############------------]  50 %");
  EXPECT_EQ(bar_text(-1), "[------------------------]   0 %");
  EXPECT_EQ(bar_text(7), "[########################] 100 %");
}

TEST(Progress, WithoutATerminalAQuickJobIsOneLine) {
  testing::internal::CaptureStderr();
  Progress progress("Loading", false);
  progress.set(0.2);
  progress.set(0.9);
  progress.finish("ready after 0.1 s");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "Loading: ready after 0.1 s\n");
}

TEST(Progress, OnATerminalTheBarMakesRoomForTheLastLine) {
  testing::internal::CaptureStderr();
  Progress progress("Loading", true);
  progress.set(0.5);
  progress.finish("done");
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "\rLoading [############------------]  50 %\r\033[KLoading: done\n");
}

}  // namespace
}  // namespace baton::cli
