// What a server program does with its command line, and what it tells about where it listens.
#include "baton/process/program.h"

#include <filesystem>
#include <fstream>
#include <iterator>

#include <unistd.h>

namespace baton::process {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class Program : public testing::Test {
 protected:
  /// Returns the exit code; what is printed is in out and err.
  int run(std::vector<const char*> arguments) {
    arguments.insert(arguments.begin(), "baton-router");
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    const int code = run_program(
        "router", static_cast<int>(arguments.size()), arguments.data(), config,
        [this](ConfigTable& table) { add_server_options(table, config); },
        [this] {
          ++served;
          return 7;
        });
    out = testing::internal::GetCapturedStdout();
    err = testing::internal::GetCapturedStderr();
    return code;
  }

  ServerConfig config;
  int served = 0;
  std::string out;
  std::string err;
};

TEST_F(Program, ServesWithItsOptionsAndReturnsWhatServingReturned) {
  EXPECT_EQ(run({"--node", "r7", "--log-level", "error"}), 7);
  EXPECT_EQ(served, 1);
  EXPECT_EQ(config.node, "r7");
  EXPECT_EQ(config.log_level, LogLevel::error);
}

TEST_F(Program, AnswersQuestionsInsteadOfServing) {
  EXPECT_EQ(run({"--version"}), 0);
  EXPECT_EQ(std::count(out.begin(), out.end(), '.'), 2) << out;
  EXPECT_EQ(run({"--help"}), 0);
  EXPECT_THAT(out, HasSubstr("--admin-listen"));
  EXPECT_EQ(run({"--node", "r7", "--print-config"}), 0);
  EXPECT_THAT(out, HasSubstr("r7"));
  EXPECT_EQ(served, 0);
}

TEST_F(Program, RefusesOptionsThatItCannotUse) {
  EXPECT_EQ(run({"--no-such-option"}), exit_config);
  EXPECT_THAT(err, StartsWith("baton-router: "));
  EXPECT_EQ(run({"--admin-listen", "0.0.0.0:80"}), exit_config);
  EXPECT_THAT(err, HasSubstr("admin_listen"));
  EXPECT_EQ(served, 0);
  EXPECT_EQ(run({"--admin-listen", "0.0.0.0:80", "--trusted-network"}), 7);
}

TEST_F(Program, SectionsOfOtherProgramsInOneFileAreTheirs) {
  const std::string file = testing::TempDir() + "/baton-" + std::to_string(getpid()) + ".yaml";
  std::ofstream(file) << "router: {node: r1}\nprefill: {node: p1, model: m}\ndecode: {node: d1}\n";
  EXPECT_EQ(run({"--config", file.c_str()}), 7) << err;
  EXPECT_EQ(config.node, "r1");
  std::ofstream(file) << "routre: {node: r1}\n";
  EXPECT_EQ(run({"--config", file.c_str()}), exit_config);
  std::filesystem::remove(file);
}

TEST_F(Program, WritesWhereItListens) {
  config.announce = testing::TempDir() + "/baton-" + std::to_string(getpid()) + ".json";
  const Endpoint api{"127.0.0.1", 81};
  ASSERT_TRUE(announce(config, "router", "r1", {{"api", api}, {"admin", {"127.0.0.1", 82}}}));
  std::ifstream file(config.announce);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  EXPECT_EQ(text, R"({"role":"router","node":"r1","pid":)" + std::to_string(getpid()) +
                      R"(,"api":"127.0.0.1:81","admin":"127.0.0.1:82"})" + "\n");
  std::filesystem::remove(config.announce);
  config.announce = testing::TempDir() + "/no/such/folder";
  const Result<void> refused = announce(config, "router", "r1", {{"api", api}});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().reason(), Reason::bad_config);
}

}  // namespace
}  // namespace baton::process
