// Two processes: bytes cross, and the death or standstill of one never holds the other's memory.
#include <algorithm>
#include <csignal>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <spawn.h>
#include <sys/wait.h>

#include "support/node.h"
#include "support/param.h"

extern char** environ;

namespace baton::transport::test {
namespace {

constexpr std::size_t payload = std::size_t{64} << 20;

class Child {
 public:
  Child(const std::string& name, const std::string& address, PairToken token,
        const std::string& mode) {
    std::vector<std::string> words = {BATON_TRANSPORT_CHILD,
                                      name,
                                      address,
                                      std::to_string(token.value().high),
                                      std::to_string(token.value().low),
                                      mode};
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    EXPECT_EQ(posix_spawn(&pid_, argv[0], nullptr, nullptr, argv.data(), environ), 0);
  }
  ~Child() {
    if (pid_ > 0) {
      signal(SIGKILL);
      wait();
    }
  }

  void signal(int number) const { kill(pid_, number); }

  /// Exit code, or minus the signal that ended it.
  int wait() {
    int status = 0;
    waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  pid_t pid_ = -1;
};

/// The test's own side, a child on the other, and a bystander that must not notice anything.
struct Scene {
  Scene(const std::string& transport, const std::string& mode)
      : node(transport, Options{}, payload), bystander(transport) {
    const PairToken token = random_token();
    peer = node->expect(token);
    child.emplace(transport, node->address(), token, mode);
    EXPECT_TRUE(pump({&node}, [&] { return node.is_up(peer); }));
    bystander_peer = connect(bystander, node).first;
  }
  void send(SendId id, std::size_t bytes) {
    constexpr std::uint64_t seed = 11;  // of all: open sends share the memory
    const std::vector from = {node.extent(0, bytes)};
    if (node.send_dones.empty() && id == SendId(0))
      fill(std::vector{node.extent(0, payload)}, seed);
    ASSERT_TRUE(node->send(id, peer, std::as_bytes(std::span(&seed, 1)), from).has_value());
  }
  void expect_bystander_unaffected() {
    EXPECT_FALSE(bystander.is_down(bystander_peer));
    const std::vector from = {bystander.extent(0, 100'000)};
    fill(from, 5);
    node.offers.clear();
    ASSERT_TRUE(bystander->send(SendId(1), bystander_peer, {}, from).has_value());
    ASSERT_TRUE(pump({&node, &bystander}, [&] { return !node.offers.empty(); }));
    const std::vector to = {node.extent(0, 100'000)};
    node->accept(node.offers.front().offer, to);
    ASSERT_TRUE(pump({&node, &bystander}, [&] { return bystander.sent(SendId(1)).has_value(); }));
    EXPECT_EQ(bystander.sent(SendId(1)), Status::ok);
    EXPECT_TRUE(matches(to, 5, 100'000));
  }
  void expect_nothing_more_is_written() {
    std::fill(node.arena.span().begin(), node.arena.span().end(), guard);
    pump(
        {&node, &bystander}, [] { return false; }, 50ms);
    EXPECT_TRUE(untouched(node.arena.span()));
  }

  Node node;
  Node bystander;
  PeerId peer;
  PeerId bystander_peer;
  std::optional<Child> child;
};

/// Each deadline is met in the promptest of three runs: in another one the machine may have been
/// busy with something else for a moment.
class Processes : public testing::TestWithParam<std::string> {
 protected:
  static Duration promptest(const std::function<Duration(Scene&)>& run, const std::string& mode) {
    Duration best = Duration::max();
    for (int i = 0; i < 3 && !HasFailure(); ++i) {
      Scene scene(GetParam(), mode);
      best = std::min(best, run(scene));
    }
    return best;
  }
};
INSTANTIATE_TEST_SUITE_P(All, Processes, testing::Values("shm", "ucx"), transport_name);

/// How long it takes until `done`.
Duration time_until(Scene& scene, const std::function<bool()>& done) {
  const Instant start = monotonic_now();
  EXPECT_TRUE(pump({&scene.node, &scene.bystander}, done));
  return monotonic_now() - start;
}

TEST_P(Processes, BytesCrossWhole) {
  Scene scene(GetParam(), "receive");
  for (std::uint64_t i = 0; i < 20; ++i) {
    scene.send(SendId(i), i * i * 10'000);
    ASSERT_TRUE(pump({&scene.node}, [&] { return scene.node.sent(SendId(i)).has_value(); }));
    EXPECT_EQ(scene.node.sent(SendId(i)), Status::ok);
  }
  scene.node->close(scene.peer);
  ASSERT_TRUE(pump({&scene.node}, [&] { return scene.node.is_down(scene.peer); }));
  EXPECT_EQ(scene.child->wait(), 0) << "3: the child got other bytes";
}

TEST_P(Processes, AKilledReceiverEndsOpenSendsWithinTwoSecondsRST14) {
  int cut = 0;  // runs in which it did not receive everything before the signal came
  const auto run = [&cut](Scene& scene) {
    Node& node = scene.node;
    for (std::uint64_t i = 0; i < 8; ++i) scene.send(SendId(i), payload);
    EXPECT_TRUE(pump({&node}, [&] { return node.sent(SendId(0)).has_value(); }));
    scene.child->signal(SIGKILL);
    const Duration took = time_until(scene, [&] { return node.is_down(scene.peer); });
    EXPECT_EQ(node.dones_at_down.at(scene.peer).first, 8u);
    cut += node.sent(SendId(7)) == Status::peer_lost;
    scene.expect_bystander_unaffected();
    return took;
  };
  EXPECT_LT(promptest(run, "receive"), 2s);
  EXPECT_GT(cut, 0);
}

TEST_P(Processes, AKilledSenderEndsAcceptedReceivesWithinTwoSecondsRST14) {
  const auto run = [](Scene& scene) {
    Node& node = scene.node;
    EXPECT_TRUE(pump({&node}, [&] { return node.offers.size() >= 2; }));
    for (std::size_t i = 0; i < 2; ++i) {
      node->accept(node.offers.at(i).offer, std::vector{node.extent(0, payload)});
    }
    node.poll();
    scene.child->signal(SIGKILL);
    const Duration took = time_until(scene, [&] { return node.is_down(scene.peer); });
    EXPECT_EQ(node.dones_at_down.at(scene.peer).second, 2u);
    scene.expect_nothing_more_is_written();
    scene.expect_bystander_unaffected();
    return took;
  };
  EXPECT_LT(promptest(run, "send"), 2s);
}

TEST_P(Processes, CloseEndsReceivesFromAStoppedSenderPromptly) {
  const auto run = [](Scene& scene) {
    Node& node = scene.node;
    EXPECT_TRUE(pump({&node}, [&] { return !node.offers.empty(); }));
    scene.child->signal(SIGSTOP);
    const OfferId offer = node.offers.at(0).offer;
    node->accept(offer, std::vector{node.extent(0, payload)});
    node.poll();
    node->close(scene.peer);
    const Duration took = time_until(scene, [&] { return node.is_down(scene.peer); });
    EXPECT_TRUE(node.received(offer).has_value());
    std::fill(node.arena.span().begin(), node.arena.span().end(), guard);
    scene.child->signal(SIGCONT);
    scene.expect_nothing_more_is_written();
    scene.expect_bystander_unaffected();
    return took;
  };
  EXPECT_LT(promptest(run, "send"), 200ms);
}

TEST_P(Processes, CancelEndsAReceiveFromAStoppedSenderPromptly) {
  const auto run = [](Scene& scene) {
    Node& node = scene.node;
    EXPECT_TRUE(pump({&node}, [&] { return !node.offers.empty(); }));
    scene.child->signal(SIGSTOP);
    const OfferId offer = node.offers.at(0).offer;
    node->accept(offer, std::vector{node.extent(0, payload)});
    node->cancel_receive(offer);
    const Duration took = time_until(scene, [&] { return node.received(offer).has_value(); });
    EXPECT_EQ(node.received(offer), Status::cancelled);
    scene.child->signal(SIGCONT);
    scene.expect_nothing_more_is_written();
    scene.expect_bystander_unaffected();
    return took;
  };
  EXPECT_LT(promptest(run, "send"), 1s);
}

TEST_P(Processes, ACancelledSendIsReusableThoughItsReceiverIsStopped) {
  const auto run = [](Scene& scene) {
    Node& node = scene.node;
    for (std::uint64_t i = 0; i < 4; ++i) scene.send(SendId(i), payload);
    EXPECT_TRUE(pump({&node}, [&] { return node.sent(SendId(0)).has_value(); }));
    scene.child->signal(SIGSTOP);
    for (std::uint64_t i = 0; i < 4; ++i) node->cancel_send(SendId(i));
    const Duration took = time_until(scene, [&] { return node.send_dones.size() == 4; });
    fill(std::vector{node.extent(0, payload)}, 4711);
    scene.child->signal(SIGCONT);
    pump(
        {&node, &scene.bystander}, [&] { return node.is_down(scene.peer); }, 300ms);
    if (!node.is_down(scene.peer)) node->close(scene.peer);
    EXPECT_TRUE(pump({&node}, [&] { return node.is_down(scene.peer); }));
    EXPECT_EQ(scene.child->wait(), 0) << "3: the child took a torn payload for a good one";
    scene.expect_bystander_unaffected();
    return took;
  };
  EXPECT_LT(promptest(run, "receive"), 1s);
}

}  // namespace
}  // namespace baton::transport::test
