#include "baton/worker/processors.h"

#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "machine_files.h"

namespace baton::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Eight processors, of which i and i + 4 are one core.
class Processors : public MachineFiles {
 protected:
  Processors() {
    for (int i = 0; i < 8; ++i) {
      const std::string core = std::to_string(i % 4) + "," + std::to_string(i % 4 + 4);
      write("cpu/cpu" + std::to_string(i) + "/topology/thread_siblings_list", core + "\n");
    }
    files_ = {groups(), path("cpu"), {{0, 1, 2, 3, 4, 5, 6, 7}}};
  }

  ProcessorFiles files_;
};

TEST(ProcessorLists, AreReadAndWrittenAsTheKernelDoes) {
  EXPECT_THAT(parse_processors("0-3,6").value(), ElementsAre(0, 1, 2, 3, 6));
  EXPECT_THAT(parse_processors("6,2-3,3,0").value(), ElementsAre(0, 2, 3, 6));
  EXPECT_THAT(parse_processors("1023").value(), ElementsAre(1023));
  EXPECT_EQ(processors_text(std::vector{0, 1, 2, 3, 6, 8, 9}), "0-3,6,8-9");
  EXPECT_EQ(processors_text({}), "");
}

TEST(ProcessorLists, WhatIsNoneIsRefusedWithTheText) {
  for (const char* text : {"", ",", "0,", "a", "3-1", "-1", "1-", "0-1-2", "0 1", "1024", "0x1",
                           "99999999999999999999", "+1"}) {
    const Result<ProcessorList> list = parse_processors(text);
    ASSERT_FALSE(list) << text;
    EXPECT_EQ(list.error().reason(), Reason::bad_config);
    EXPECT_THAT(list.error().message(), HasSubstr("cpus: \"" + std::string(text) + "\""));
  }
}

TEST_F(Processors, WithoutOptionsThereIsAThreadACoreAndNoneIsPinned) {
  const ProcessorPlan plan = plan_processors("", 0, files_).value();
  EXPECT_EQ(plan.threads, 4);
  EXPECT_THAT(plan.pinned, ElementsAre());
  EXPECT_EQ(plan.why, "4 cores in processors 0-7");
}

TEST_F(Processors, AListPinsOneThreadACore) {
  const ProcessorPlan plan = plan_processors("1-2,5-7", 0, files_).value();
  EXPECT_EQ(plan.threads, 3);
  EXPECT_THAT(plan.pinned, ElementsAre(1, 2, 7));
}

TEST_F(Processors, MoreThreadsThanCoresTakeTheSiblingsLast) {
  const ProcessorPlan plan = plan_processors("1-2,5-7", 5, files_).value();
  EXPECT_THAT(plan.pinned, ElementsAre(1, 2, 7, 5, 6));
  EXPECT_THAT(plan.why, HasSubstr("the number of threads was given"));
}

TEST_F(Processors, WithoutATopologyEachProcessorCountsAsACore) {
  files_.topology = path("nowhere");
  const ProcessorPlan plan = plan_processors("", 0, files_).value();
  EXPECT_EQ(plan.threads, 8);
  EXPECT_THAT(plan.why, HasSubstr("no topology shown: each processor counts as a core"));
}

TEST_F(Processors, TheNewerNameOfTheSiblingsGoesFirst) {
  for (const char* name : {"cpu/cpu0/", "cpu/cpu1/"}) {
    write(std::string(name) + "topology/core_cpus_list", "0-1\n");
  }
  EXPECT_EQ(plan_processors("0-1", 0, files_).value().threads, 1);
}

TEST_F(Processors, TheQuotaOfEitherVersionBoundsTheThreads) {
  write("fs/cpu.max", "250000 100000\n");
  EXPECT_EQ(plan_processors("", 0, files_).value().threads, 3);
  EXPECT_THAT(plan_processors("", 0, files_).value().why, HasSubstr("quota is 2.50"));
  write("fs/cpu/cpu.cfs_quota_us", "50000\n");
  write("fs/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_THAT(plan_processors("0-3", 0, files_).value().pinned, ElementsAre(0));
  EXPECT_EQ(plan_processors("", 6, files_).value().threads, 6) << "what is told counts";
}

TEST_F(Processors, TheGroupsOfEitherVersionBoundTheList) {
  write("self", "3:cpuset:/pods/p1\n0::/a\n");
  write("fs/a/cpuset.cpus.effective", "0-5\n");
  write("fs/cpuset/pods/p1/cpuset.cpus", "2-7\n");
  EXPECT_EQ(plan_processors("", 0, files_).value().why, "4 cores in processors 2-5");
  write("fs/cpuset/cpuset.cpus", "40-47\n");
  EXPECT_EQ(plan_processors("", 0, files_).value().threads, 4) << "another process's view";
}

TEST_F(Processors, AListThatCannotBeHadIsRefusedWithWhatCanBe) {
  files_.affinity = {0, 1, 2};
  const Result<ProcessorPlan> beyond = plan_processors("2-3", 0, files_);
  ASSERT_FALSE(beyond);
  EXPECT_EQ(beyond.error().reason(), Reason::bad_config);
  EXPECT_THAT(beyond.error().message(), HasSubstr("cpus: 2-3 is not within 0-2"));
  const Result<ProcessorPlan> crowded = plan_processors("1-2", 3, files_);
  ASSERT_FALSE(crowded);
  EXPECT_THAT(crowded.error().message(), HasSubstr("threads: 3 kernel threads do not fit on"));
}

TEST_F(Processors, AreSharedByWholeCores) {
  EXPECT_THAT(share_processors("", 2, files_).value(),
              ElementsAre(ElementsAre(0, 1, 4, 5), ElementsAre(2, 3, 6, 7)));
  EXPECT_THAT(share_processors("0-2", 2, files_).value(),
              ElementsAre(ElementsAre(0, 1), ElementsAre(2)));
  EXPECT_THAT(share_processors("0-3", 3, files_).value(),
              ElementsAre(ElementsAre(0, 1), ElementsAre(2), ElementsAre(3)));
}

TEST_F(Processors, AreSharedWithinTheQuota) {
  write("fs/cpu.max", "200000 100000\n");
  EXPECT_THAT(share_processors("", 2, files_).value(),
              ElementsAre(ElementsAre(0, 4), ElementsAre(1, 5)));
}

TEST_F(Processors, FewerCoresThanProcessesAreTakenInTurn) {
  EXPECT_THAT(share_processors("0-1", 3, files_).value(),
              ElementsAre(ElementsAre(0), ElementsAre(1), ElementsAre(0)));
}

TEST(ProcessorPlans, OfThisMachineHaveAThread) {
  const ProcessorPlan plan = plan_processors("", 0).value();
  EXPECT_GE(plan.threads, 1);
}

TEST(Confinement, KeepsTheThreadOnItsList) {
  // On a thread of its own: the affinity stays with it.
  std::thread([] {
    const int first = share_processors("", 1).value().front().front();
    ASSERT_TRUE(confine_to(std::to_string(first)));
    EXPECT_EQ(plan_processors("", 0).value().threads, 1);
    EXPECT_FALSE(confine_to("1023"));
  }).join();
}

}  // namespace
}  // namespace baton::worker
