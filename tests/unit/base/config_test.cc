#include "baton/base/config.h"

#include <cstdio>
#include <fstream>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace baton {
namespace {

using namespace std::chrono_literals;

enum class Policy { near_best, round_robin };

struct Settings {
  Endpoint listen{"127.0.0.1", 8000};
  bool trusted_network = false;
  int shards = 2;
  std::uint32_t batch = 8;
  double headroom = 0.5;
  Duration lease = 5s;
  std::uint64_t body_bytes = 4 << 20;
  Policy policy = Policy::near_best;
  std::string node = "r0";
  std::string model;
  std::vector<std::string> names = {"a"};
  std::vector<Endpoint> workers;
};

class ConfigTest : public ::testing::Test {
 protected:
  using Arguments = std::vector<std::string>;
  using Environment = ConfigTable::Environment;

  ConfigTest() : table_("baton-router", "router", {"prefill", "decode"}) {
    table_.add("listen", &settings_.listen, "Address of the API");
    table_.add("trusted_network", &settings_.trusted_network, "Everybody there may be trusted");
    table_.add("shards", &settings_.shards, IntRange{1, 64}, "Loop threads");
    table_.add("batch", &settings_.batch, IntRange{}, "Requests in a batch");
    table_.add("headroom", &settings_.headroom, RealRange{0.0, 1.0}, "Share of blocks kept free");
    table_.add("handoff.lease", &settings_.lease, DurationRange{1s, 60s}, "Lease of a grant");
    table_.add_size("body_bytes", &settings_.body_bytes, SizeRange{1024, 1 << 30}, "Longest body");
    table_.add_enum<Policy>(
        "policy", &settings_.policy,
        {{"near-best", Policy::near_best}, {"round-robin", Policy::round_robin}}, "Placement");
    table_.add("node", &settings_.node, "Name of this node");
    table_.add_path("model", &settings_.model, "Model file");
    table_.add("names", &settings_.names, "Model names");
    table_.add("workers", &settings_.workers, "Workers");
  }

  ~ConfigTest() override {
    if (!file_.empty()) std::remove(file_.c_str());
  }

  std::string write_file(const std::string& text) {
    file_ = ::testing::TempDir() + ::testing::UnitTest::GetInstance()->current_test_info()->name() +
            std::to_string(getpid()) + ".yaml";
    std::ofstream(file_) << text;
    return file_;
  }

  /// The message of a load that has to fail.
  std::string refusal(const Arguments& arguments, const Environment& environment = {}) {
    const auto action = table_.load(arguments, environment);
    EXPECT_TRUE(action.has_error());
    if (action.has_value()) return "";
    EXPECT_EQ(action.error().reason(), Reason::bad_config);
    return action.error().message();
  }

  Settings settings_;
  ConfigTable table_;
  std::string file_;
};

TEST_F(ConfigTest, WithoutAnySourceTheDefaultsHold) {
  EXPECT_EQ(table_.load(Arguments{}, {}).value(), ConfigAction::run);
  EXPECT_EQ(settings_.listen.port, 8000);
  EXPECT_EQ(table_.source("listen"), "default");
}

TEST_F(ConfigTest, FlagsWinOverEnvironmentOverFileOverDefaults) {
  write_file("router:\n  shards: 3\n  batch: 3\n  node: file\n");
  ASSERT_TRUE(table_
                  .load(Arguments{"--shards=5", "--config", file_},
                        {{"BATON_ROUTER_SHARDS", "4"}, {"BATON_ROUTER_BATCH", "4"}})
                  .has_value());
  EXPECT_EQ(settings_.shards, 5);
  EXPECT_EQ(settings_.batch, 4u);
  EXPECT_EQ(settings_.node, "file");
  EXPECT_EQ(settings_.headroom, 0.5);
  EXPECT_EQ(table_.source("shards"), "flag --shards");
  EXPECT_EQ(table_.source("batch"), "environment BATON_ROUTER_BATCH");
  EXPECT_EQ(table_.source("node"), "file " + file_ + ":4");
  EXPECT_EQ(table_.source("headroom"), "default");
}

TEST_F(ConfigTest, EveryTypeIsReadFromEverySource) {
  const std::vector<std::pair<std::string, std::string>> values = {
      {"listen", "[::1]:80"},  {"trusted_network", "true"}, {"shards", "7"},
      {"batch", "9"},          {"headroom", "0.25"},        {"handoff.lease", "1500ms"},
      {"body_bytes", "64KiB"}, {"policy", "round-robin"},   {"node", "n 1"},
      {"model", "/m/x.gguf"},  {"names", "a, b"},           {"workers", "h:1,[::2]:2"},
  };
  Arguments flags;
  Environment environment;
  std::string yaml = "router:\n";
  for (const auto& [name, value] : values) {
    std::string flag = "--" + name;
    std::string variable = "BATON_ROUTER_" + name;
    for (char& c : flag) c = c == '_' || c == '.' ? '-' : c;
    for (char& c : variable) c = c == '.' ? '_' : static_cast<char>(std::toupper(c));
    flags.push_back(flag + "=" + value);
    environment.emplace_back(variable, value);
    yaml += fmt::format("  {}: \"{}\"\n", name, value);
  }
  write_file(yaml);
  for (int source = 0; source < 3; ++source) {
    settings_ = Settings();
    const auto action = source == 0   ? table_.load(flags, {})
                        : source == 1 ? table_.load(Arguments{}, environment)
                                      : table_.load(Arguments{"--config=" + file_}, {});
    ASSERT_TRUE(action.has_value()) << action.error().message();
    EXPECT_EQ(settings_.listen, (Endpoint{"::1", 80}));
    EXPECT_TRUE(settings_.trusted_network);
    EXPECT_EQ(settings_.shards, 7);
    EXPECT_EQ(settings_.headroom, 0.25);
    EXPECT_EQ(settings_.lease, 1500ms);
    EXPECT_EQ(settings_.body_bytes, 65536u);
    EXPECT_EQ(settings_.policy, Policy::round_robin);
    EXPECT_EQ(settings_.node, "n 1");
    EXPECT_EQ(settings_.names, (std::vector<std::string>{"a", "b"}));
    EXPECT_EQ(settings_.workers, (std::vector<Endpoint>{{"h", 1}, {"::2", 2}}));
  }
}

TEST_F(ConfigTest, TheFileMayNestKeysAndListItems) {
  write_file(
      "prefill:\n  anything: goes\nrouter:\n  handoff:\n    lease: 2000\n"
      "  workers:\n    - a:1\n    - b:2\n");
  ASSERT_TRUE(table_.load(Arguments{"--config", file_}, {}).has_value());
  EXPECT_EQ(settings_.lease, 2s);
  EXPECT_EQ(settings_.workers.size(), 2u);
}

TEST_F(ConfigTest, TheEnvironmentMayNameTheFileAndTheFlagWins) {
  write_file("router: {shards: 9}\n");
  ASSERT_TRUE(table_.load(Arguments{}, {{"BATON_ROUTER_CONFIG", file_}}).has_value());
  EXPECT_EQ(settings_.shards, 9);
  ASSERT_TRUE(
      table_.load(Arguments{"--config", file_}, {{"BATON_ROUTER_CONFIG", "/none"}}).has_value());
}

TEST_F(ConfigTest, FlagsTakeTheirValueInBothFormsAndBooleansHaveANegation) {
  settings_.trusted_network = true;
  ASSERT_TRUE(table_.load(Arguments{"--node", "x", "--no-trusted-network"}, {}).has_value());
  EXPECT_FALSE(settings_.trusted_network);
  ASSERT_TRUE(table_.load(Arguments{"--node=y", "--trusted-network"}, {}).has_value());
  EXPECT_TRUE(settings_.trusted_network);
  ASSERT_TRUE(table_.load(Arguments{"--names", "x", "--names", "y"}, {}).has_value());
  EXPECT_EQ(settings_.names, (std::vector<std::string>{"x", "y"}));
}

// RTR-17: a wrong configuration ends the start, with everything that helps to mend it.
TEST_F(ConfigTest, RTR17ABadValueNamesOptionValueSourceAndWhatIsAllowed) {
  EXPECT_EQ(refusal({"--shards=65"}),
            "router.shards = \"65\" (flag --shards): out of range; allowed: 1 to 64");
  EXPECT_EQ(
      refusal({}, {{"BATON_ROUTER_HANDOFF_LEASE", "1d"}}),
      "router.handoff.lease = \"1d\" (environment BATON_ROUTER_HANDOFF_LEASE): not a duration "
      "such as 250us, 100ms, 5s, 2m or 1h; allowed: 1s to 1m");
  EXPECT_EQ(refusal({"--policy=best"}),
            "router.policy = \"best\" (flag --policy): not known; allowed: one of near-best, "
            "round-robin");
  write_file("router:\n  body_bytes: 1\n");
  EXPECT_EQ(refusal({"--config", file_}), "router.body_bytes = \"1\" (file " + file_ +
                                              ":2): out of range; allowed: 1KiB to 1GiB");
}

TEST_F(ConfigTest, RTR17EveryTypeRefusesWhatItIsNot) {
  const std::vector<std::string> bad = {
      "--listen=nowhere",
      "--listen=h:65536",
      "--listen=h:",
      "--listen=:80",
      "--listen=::1:80",
      "--trusted-network=maybe",
      "--shards=",
      "--shards=1.5",
      "--shards=0x10",
      "--shards=0",
      "--shards=99999999999999999999",
      "--batch=-1",
      "--batch=4294967296",
      "--headroom=nan",
      "--headroom=1.01",
      "--headroom=half",
      "--handoff-lease=-5s",
      "--handoff-lease=s",
      "--handoff-lease=5 s",
      "--handoff-lease=9999999999999h",
      "--body-bytes=4MB",
      "--body-bytes=99999999TiB",
      "--policy=",
      "--names=a,,b",
      "--workers=h:1,h",
  };
  for (const std::string& flag : bad) {
    const Settings before;
    const std::string message = refusal({flag});
    EXPECT_NE(message.find("(flag --"), std::string::npos) << flag << ": " << message;
    EXPECT_EQ(settings_.shards, before.shards);
    EXPECT_EQ(settings_.workers, before.workers);
  }
}

TEST_F(ConfigTest, UnknownNamesAreRefusedInEverySource) {
  EXPECT_NE(refusal({"--lisen=h:1"}).find("--lisen"), std::string::npos);
  EXPECT_NE(refusal({"extra"}).find("\"extra\""), std::string::npos);
  EXPECT_NE(refusal({"--no-shards"}).find("--no-shards"), std::string::npos);
  EXPECT_NE(refusal({"--node"}).find("--node needs a value"), std::string::npos);
  EXPECT_NE(refusal({"--node=a", "--node=b"}).find("twice"), std::string::npos);
  EXPECT_NE(refusal({}, {{"BATON_ROUTER_LISEN", "x"}}).find("BATON_ROUTER_LISEN"),
            std::string::npos);
  write_file("router:\n  shards: 3\n  shard: 3\nruter: {}\n");
  const std::string message = refusal({"--config", file_});
  EXPECT_NE(message.find(file_ + ":3: unknown option \"router.shard\""), std::string::npos);
  EXPECT_NE(message.find(":4: unknown section \"ruter\""), std::string::npos);
}

TEST_F(ConfigTest, AllProblemsAreReportedAtOnce) {
  const std::string message = refusal({"--shards=0", "--nonsense"}, {{"BATON_ROUTER_POLICY", "x"}});
  EXPECT_EQ(std::count(message.begin(), message.end(), '\n'), 2);
}

TEST_F(ConfigTest, AFileThatIsMissingOrNoYamlIsNamed) {
  EXPECT_NE(refusal({"--config=/no/such/file"}).find("/no/such/file"), std::string::npos);
  EXPECT_NE(refusal({"--config", ::testing::TempDir()}).find(::testing::TempDir()),
            std::string::npos);
  for (const char* text :
       {"router: [", "- a\n", "router: 5\n", "router:\n  shards: 1\n  shards: 2\n",
        "router:\n  names: [{a: b}]\n", "router:\n  shards:\n"}) {
    write_file(text);
    EXPECT_NE(refusal({"--config", file_}).find(file_), std::string::npos) << text;
  }
  write_file("");
  EXPECT_TRUE(table_.load(Arguments{"--config", file_}, {}).has_value());
}

TEST_F(ConfigTest, VariablesThatKubernetesMakesForAServiceAreNoOptions) {
  EXPECT_TRUE(table_
                  .load(Arguments{}, {{"BATON_ROUTER_PORT", "tcp://10.0.0.1:80"},
                                      {"BATON_ROUTER_SERVICE_HOST", "10.0.0.1"},
                                      {"BATON_ROUTER_SERVICE_PORT_HTTP", "80"},
                                      {"BATON_ROUTER_PORT_80_TCP_ADDR", "10.0.0.1"},
                                      {"BATON_ROUTERS", "x"},
                                      {"BATON_PREFILL_LISTEN", "x"}})
                  .has_value());
}

TEST_F(ConfigTest, HelpAndVersionWinOverErrors) {
  EXPECT_EQ(table_.load(Arguments{"--nonsense", "--help"}, {}).value(), ConfigAction::print_help);
  EXPECT_EQ(table_.load(Arguments{"--version", "--shards=x"}, {}).value(),
            ConfigAction::print_version);
  EXPECT_EQ(table_.load(Arguments{"--print-config"}, {}).value(), ConfigAction::print_config);
  EXPECT_NE(refusal({"--print-config", "--shards=x"}), "");
}

TEST_F(ConfigTest, HelpShowsFlagTypeRangeDefaultAndVariable) {
  EXPECT_NE(table_.help().find("  --handoff-lease DURATION\n      Lease of a grant. Allowed: 1s to "
                               "1m. Default: 5s. Environment BATON_ROUTER_HANDOFF_LEASE.\n"),
            std::string::npos)
      << table_.help();
  EXPECT_NE(table_.help().find("--policy near-best|round-robin"), std::string::npos);
}

// RTR-15: the effective configuration can be seen, with where it came from, and used again.
TEST_F(ConfigTest, RTR15TheEffectiveConfigurationShowsSourcesAndLoadsAgain) {
  ASSERT_TRUE(table_
                  .load(Arguments{"--node=a \"b\" \\ # c", "--policy=round-robin", "--workers=h:1"},
                        {{"BATON_ROUTER_HANDOFF_LEASE", "1500ms"}})
                  .has_value());
  const std::string text = table_.effective();
  EXPECT_NE(text.find("handoff.lease: \"1500ms\"  # environment BATON_ROUTER_HANDOFF_LEASE\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("shards: \"2\"  # default\n"), std::string::npos);
  write_file(text);
  settings_ = Settings();
  const auto again = table_.load(Arguments{"--config", file_}, {});
  ASSERT_TRUE(again.has_value()) << again.error().message();
  EXPECT_EQ(settings_.node, "a \"b\" \\ # c");
  EXPECT_EQ(settings_.policy, Policy::round_robin);
  EXPECT_EQ(settings_.workers.size(), 1u);
  EXPECT_EQ(settings_.lease, 1500ms);
}

TEST_F(ConfigTest, RulesOverSeveralOptionsAreCheckedLast) {
  table_.check([this]() -> Result<void> {
    if (settings_.shards > static_cast<int>(settings_.batch)) {
      return Error(Reason::bad_config, "router.shards is above router.batch");
    }
    return ok();
  });
  EXPECT_TRUE(table_.load(Arguments{"--shards=8"}, {}).has_value());
  EXPECT_EQ(refusal({"--shards=9"}), "router.shards is above router.batch");
}

TEST_F(ConfigTest, TheProcesssOwnArgumentsAndEnvironmentAreUsed) {
  ::setenv("BATON_ROUTER_NODE", "from-env", 1);
  const char* argv[] = {"baton-router", "--shards", "6"};
  EXPECT_TRUE(table_.load(3, argv).has_value());
  ::unsetenv("BATON_ROUTER_NODE");
  EXPECT_EQ(settings_.shards, 6);
  EXPECT_EQ(settings_.node, "from-env");
}

TEST(ConfigDeathTest, TwoOptionsOfOneNameAreABug) {
  int value = 0;
  ConfigTable table("p", "s");
  table.add("a_b", &value, IntRange{}, "x");
  EXPECT_DEATH(table.add("a.b", &value, IntRange{}, "x"), "internal error");
  EXPECT_DEATH(table.add("port", &value, IntRange{}, "x"), "internal error");
}

TEST(Endpoint, IsWrittenAsItIsRead) {
  for (const char* text : {"127.0.0.1:0", "[::1]:65535", "host.example:80"}) {
    EXPECT_EQ(parse_endpoint(text).value().to_string(), text);
  }
  for (const char* text : {"", "h", ":1", "h:", "h:-1", "h: 1", "h:1 ", "::1:1", "[h]:1", "[]:1",
                           "a b:1", "user@h:1", "h/p:1"}) {
    EXPECT_TRUE(parse_endpoint(text).has_error()) << text;
  }
}

}  // namespace
}  // namespace baton
