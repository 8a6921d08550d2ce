#include "baton/worker/machine.h"

#include <gtest/gtest.h>

#include "machine_files.h"

namespace baton::worker {
namespace {

using ControlGroups = MachineFiles;

constexpr std::uint64_t mib = 1024 * 1024;

TEST_F(ControlGroups, WithoutLimitsTheMachineIsTheLimit) {
  const std::uint64_t machine = memory_limit_bytes(groups());
  EXPECT_GT(machine, 64 * mib);
  write("self", "0::/a\n");
  write("fs/a/memory.max", "max\n");
  EXPECT_EQ(memory_limit_bytes(groups()), machine);
}

TEST_F(ControlGroups, OfANestedGroupTheTightestLimitAboveItHolds) {
  write("self", "0::/a/b/c\n");
  write("fs/a/b/c/memory.max", "max\n");
  write("fs/a/b/memory.max", std::to_string(40 * mib) + "\n");
  write("fs/a/memory.max", std::to_string(50 * mib) + "\n");
  EXPECT_EQ(memory_limit_bytes(groups()), 40 * mib);
}

TEST_F(ControlGroups, ControllersOfVersionOneHaveGroupsOfTheirOwn) {
  write("self", "9:name=systemd:/x\n4:memory:/pods/p1\n2:cpu,cpuacct:/pods/p1\n");
  write("fs/memory/pods/p1/memory.limit_in_bytes", std::to_string(30 * mib) + "\n");
  write("fs/cpu/pods/p1/cpu.cfs_quota_us", "100000\n");
  write("fs/cpu/pods/p1/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(memory_limit_bytes(groups()), 30 * mib);
  EXPECT_EQ(quota_processors(groups()), 1);
}

TEST_F(ControlGroups, InAContainerTheRootIsItsOwnGroup) {
  write("self", "4:memory:/docker/0123456789\n");
  write("fs/memory/memory.limit_in_bytes", std::to_string(20 * mib) + "\n");
  EXPECT_EQ(memory_limit_bytes(groups()), 20 * mib);
}

TEST_F(ControlGroups, GarbageIsNoLimit) {
  const std::uint64_t machine = memory_limit_bytes(groups());
  write("self", "::::\n\nmemory\n0:\n");
  write("fs/memory.max", "many\n");
  EXPECT_EQ(memory_limit_bytes(groups()), machine);
}

}  // namespace
}  // namespace baton::worker
