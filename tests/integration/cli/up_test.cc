// `baton up` and its fellows as a person meets them: real processes, a tiny model.
#include <csignal>
#include <fstream>

#include <boost/json.hpp>
#include <gmock/gmock.h>
#include <unistd.h>

#include "baton_run.h"
#include "support/models/default_model.h"
#include "support/models/random_model.h"

namespace baton::test {
namespace {

namespace json = boost::json;

using testing::HasSubstr;

class Up : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    std::string name = std::filesystem::temp_directory_path() / "baton-up-XXXXXX";
    folder() = mkdtemp(name.data());
    RandomModel spec;
    spec.vocabulary = text_vocabulary;
    spec.text = true;
    write_random_model(spec, folder() / "tiny.gguf");
    // The figures of a handoff belong to every answer, on a busy machine, too.
    setenv("BATON_ROUTER_FACTS_WAIT", "60s", 1);
  }
  static void TearDownTestSuite() { std::filesystem::remove_all(folder()); }

  /// Nothing may be left of any run.
  void TearDown() override { EXPECT_EQ(orphans(), 0); }

  static std::filesystem::path& folder() {
    static std::filesystem::path folder;
    return folder;
  }
  static std::string model() { return folder() / "tiny.gguf"; }
  static std::string file(const std::string& name, const std::string& text) {
    std::ofstream(folder() / name) << text;
    return folder() / name;
  }

  static std::vector<std::string> up(std::vector<std::string> more = {}) {
    std::vector<std::string> arguments = {"up", "--model", model(), "--threads", "1"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }

  /// The URL on the banner's line of this title.
  static std::string url(const BatonRun& run, const std::string& title) {
    const std::string out = run.out();
    const std::size_t line = out.find("\n  " + title);
    const std::size_t begin = out.find("http://", line);
    return out.substr(begin, out.find_first_of("/ \n", begin + 7) - begin);
  }
};

TEST_F(Up, AnswersOnePromptAsOneProcessDoesAndLeavesNothingBehind) {
  BatonRun once(up({"--once", "hello", "--max-tokens", "8"}));
  ASSERT_EQ(once.end(), 0) << once.err();
  const std::string out = once.out();
  EXPECT_THAT(out, HasSubstr("Baton is up: 1 router, 1 prefill node, 1 decode node"));
  EXPECT_THAT(out, HasSubstr("shm (prefill-1 to decode-1): both nodes run on one host"));
  EXPECT_THAT(out, HasSubstr("P = 15 prompt tokens"));
  EXPECT_THAT(out, HasSubstr("decode node: 0 prompt rows, first step 1 row, cache 15 -> 16"));

  BatonRun local(
      {"complete", "--local", "--model", model(), "--chat", "hello", "--max-tokens", "8"});
  ASSERT_EQ(local.end(), 0) << local.err();
  EXPECT_THAT(out, HasSubstr("\n> hello\n" + local.out() + "\nWhere the time went"));
  EXPECT_THAT(out, HasSubstr(" s after the question, "));
}

TEST_F(Up, StaysUpForOthersAndStopsAllOnASignal) {
  BatonRun cluster(up({"--cache-tokens", "2048"}));
  ASSERT_TRUE(cluster.wait_for("Ctrl-C stops everything")) << cluster.err();
  const std::string api = url(cluster, "API");

  const std::string prompts = file("prompts",
                                   "{\"prompt\": \"one\", \"max_tokens\": 20}\n"
                                   "{\"prompt\": [5, 6, 7], \"max_tokens\": 3}\n"
                                   "{\"prompt\": \"two\", \"max_tokens\": 1}\n");
  const auto batch = [&](std::vector<std::string> how) {
    how.insert(how.begin(), {"complete", "--batch", prompts, "--logits-digest", "--ignore-eos"});
    BatonRun run(how);
    EXPECT_EQ(run.end(), 0) << run.err();
    std::vector<std::string> out;
    std::istringstream lines(run.out());
    for (std::string line; std::getline(lines, line);) {
      const json::object answer = json::parse(line).as_object();
      out.push_back(json::serialize(answer.at("token_ids")) +
                    json::serialize(answer.at("logits_digests")));
    }
    return out;
  };
  const auto handed_over = batch({"--url", api, "--concurrency", "3"});
  EXPECT_EQ(handed_over.size(), 3U);
  EXPECT_EQ(handed_over, batch({"--local", "--model", model()}));

  BatonRun status({"status", "--url", url(cluster, "admin")});
  EXPECT_EQ(status.end(), 0) << status.err();
  EXPECT_THAT(status.out(), HasSubstr(": ready\n"));
  EXPECT_THAT(status.out(),
              HasSubstr("prefill-1 -> decode-1 over shm: both nodes run on one host"));

  BatonRun chat({"chat", "--url", api, "--max-tokens", "5"}, "hi\n\nagain\n/quit\n");
  EXPECT_EQ(chat.end(), 0) << chat.err();

  cluster.signal(SIGINT);
  EXPECT_EQ(cluster.end(), 0) << cluster.err();
}

TEST_F(Up, ANodeThatDiesEndsAllWithItsNameAndLog) {
  BatonRun cluster(up());
  ASSERT_TRUE(cluster.wait_for("Ctrl-C stops everything")) << cluster.err();
  const std::vector<pid_t> nodes = cluster.children();
  ASSERT_EQ(nodes.size(), 3U);
  kill(nodes.front(), SIGKILL);  // the first that was started
  EXPECT_EQ(cluster.end(), 70);
  EXPECT_THAT(cluster.err(), HasSubstr("decode-1 was ended by signal 9"));
  EXPECT_THAT(cluster.err(), HasSubstr("info decode: ready"));
}

TEST_F(Up, NoNodeOutlivesACommandThatIsKilled) {
  BatonRun cluster(up());
  ASSERT_TRUE(cluster.wait_for("Ctrl-C stops everything")) << cluster.err();
  ASSERT_EQ(cluster.children().size(), 3U);
  cluster.signal(SIGKILL);
  EXPECT_EQ(cluster.end(), 128 + SIGKILL);
}

TEST_F(Up, PassesOnTheCodeAndTheWordsOfANodeThatRefusesItsModel) {
  BatonRun run({"up", "--model", file("broken.gguf", "GGUF and nothing else"), "--once", "x"});
  EXPECT_EQ(run.end(), 78);
  EXPECT_THAT(run.err(), HasSubstr("broken.gguf"));
  EXPECT_THAT(run.err(), HasSubstr("exited with code 78"));
}

TEST_F(Up, PassesOnTheWordsOfANodeThatRefusesAnOption) {
  BatonRun run(up({"--cache-tokens", "many"}));
  EXPECT_EQ(run.end(), 78);
  EXPECT_THAT(run.err(), HasSubstr("cache_tokens = \"many\""));
}

TEST_F(Up, SeveralNodesOfEachKindPairOverUcx) {
  BatonRun run(up({"--prefill-nodes", "2", "--decode-nodes", "2", "--transports", "ucx", "--once",
                   "hi", "--keep-logs", folder() / "logs"}));
  ASSERT_EQ(run.end(), 0) << run.err();
  EXPECT_THAT(run.out(), HasSubstr("1 router, 2 prefill nodes, 2 decode nodes"));
  EXPECT_THAT(run.out(), HasSubstr("transport  ucx (4 links)"));
  EXPECT_THAT(run.out(), HasSubstr("over ucx in"));
  EXPECT_TRUE(std::filesystem::exists(folder() / "logs" / "decode-2.log"));
}

TEST_F(Up, NamesEveryAdminListenerForPrometheus) {
  const std::filesystem::path targets = folder() / "targets" / "local.json";
  BatonRun run(up({"--prometheus-targets", targets, "--once", "hi"}));
  ASSERT_EQ(run.end(), 0) << run.err();
  std::ifstream file(targets);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  const json::value list = json::parse(text);
  const json::array& addresses = list.at(0).at("targets").as_array();
  EXPECT_EQ(addresses.size(), 3u);
  for (const json::value& address : addresses) {
    EXPECT_THAT(run.out(), HasSubstr(std::string(address.as_string())));
  }
}

TEST_F(Up, AnswersWithTheDefaultModel) {
  const std::filesystem::path path = default_model();
  if (path.empty()) GTEST_SKIP() << no_default_model;
  const std::string question = "What is the capital of France?";
  BatonRun once({"up", "--model", path, "--once", question, "--max-tokens", "12"});
  ASSERT_EQ(once.end(), 0) << once.err();
  BatonRun local(
      {"complete", "--local", "--model", path, "--chat", question, "--max-tokens", "12"});
  ASSERT_EQ(local.end(), 0) << local.err();
  EXPECT_THAT(once.out(), HasSubstr("\n> " + question + "\n" + local.out()));
  EXPECT_THAT(once.out(), HasSubstr("decode node: 0 prompt rows"));
}

}  // namespace
}  // namespace baton::test
