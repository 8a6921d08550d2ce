#include "child.h"

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include "run_folder.h"

namespace baton::cli {
namespace {

using testing::HasSubstr;

class ChildTest : public testing::Test {
 protected:
  static Result<RunFolder> make_folder() { return RunFolder::create(""); }

  Result<Child> shell(const std::string& script) {
    return Child::start("sh", "/bin/sh", {"-c", script}, folder_.log("sh"));
  }
  static void wait_for_end(Child& child) {
    for (int i = 0; i < 3000 && child.running(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    EXPECT_FALSE(child.running());
  }

  RunFolder folder_ = make_folder().value();
};

TEST_F(ChildTest, TellsItsExitCodeAndKeepsItsOutput) {
  Child child = shell("echo first; echo second >&2; read x || echo no input; exit 78").value();
  wait_for_end(child);
  EXPECT_EQ(child.code(), 78);
  EXPECT_EQ(child.ending(), "exited with code 78");
  EXPECT_EQ(tail(child.log(), 2, "> "), "> second\n> no input\n");
}

TEST_F(ChildTest, TellsTheSignalThatEndedIt) {
  Child child = shell("kill -9 $$").value();
  wait_for_end(child);
  EXPECT_EQ(child.code(), std::nullopt);
  EXPECT_THAT(child.ending(), HasSubstr("signal 9"));
}

TEST_F(ChildTest, IsInAProcessGroupOfItsOwnSoThatCtrlCDoesNotReachIt) {
  Child child = shell("cut -d' ' -f5 /proc/$$/stat; echo $$").value();
  wait_for_end(child);
  std::ifstream log(child.log());
  pid_t group = 0;
  pid_t own = 0;
  log >> group >> own;
  EXPECT_EQ(group, own);
}

TEST_F(ChildTest, DiesWithItsParent) {
  const std::string mark = folder_.announcement("pid");
  const pid_t parent = fork();
  if (parent == 0) {
    const auto child =
        shell("echo $$ > " + mark + ".part; mv " + mark + ".part " + mark + "; exec sleep 60");
    while (!std::filesystem::exists(mark)) usleep(1000);
    raise(SIGKILL);
  }
  waitpid(parent, nullptr, 0);
  pid_t child = 0;
  std::ifstream(mark) >> child;
  ASSERT_GT(child, 0);
  // Dead, or dead and not yet reaped by whoever inherits orphans here.
  const auto alive = [child] {
    std::string word;
    char state = 'X';
    std::ifstream("/proc/" + std::to_string(child) + "/stat") >> word >> word >> state;
    return state != 'X' && state != 'Z';
  };
  for (int i = 0; i < 3000 && alive(); ++i) usleep(10'000);
  EXPECT_FALSE(alive());
}

TEST_F(ChildTest, AProgramThatIsNotThereIsNamed) {
  const auto child = Child::start("x", "/no/such/program", {}, folder_.log("x"));
  ASSERT_FALSE(child);
  EXPECT_EQ(child.error().reason(), Reason::bad_config);
  EXPECT_THAT(child.error().message(), HasSubstr("/no/such/program"));
}

TEST(RunFolder, IsRemovedButForLogsThatAreToBeKept) {
  std::string run;
  const auto logs = std::filesystem::temp_directory_path() / ("kept-" + std::to_string(getpid()));
  {
    const RunFolder folder = RunFolder::create((logs / "a").string()).value();
    run = std::filesystem::path(folder.announcement("n")).parent_path();
    std::ofstream(folder.announcement("n")) << "x";
    std::ofstream(folder.log("n")) << "x";
    EXPECT_EQ(std::filesystem::status(run).permissions(), std::filesystem::perms::owner_all);
  }
  EXPECT_FALSE(std::filesystem::exists(run));
  EXPECT_TRUE(std::filesystem::exists(logs / "a" / "n.log"));
  std::filesystem::remove_all(logs);
}

}  // namespace
}  // namespace baton::cli
