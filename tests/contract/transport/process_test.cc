// Two processes: bytes cross, and the death or standstill of one never holds the other's memory.
#include <csignal>
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
class Processes : public testing::TestWithParam<std::string> {
 protected:
  void start(const std::string& mode) {
    const PairToken token = random_token();
    peer = node.transport->expect(token);
    child.emplace(GetParam(), node->address(), token, mode);
    ASSERT_TRUE(pump(
        {&node}, [&] { return node.is_up(peer); }, 20s));
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

  Node node{GetParam(), {}, payload};
  Node bystander{GetParam()};
  PeerId peer;
  PeerId bystander_peer;
  std::optional<Child> child;
};
INSTANTIATE_TEST_SUITE_P(All, Processes, testing::Values("shm", "ucx"), transport_name);

TEST_P(Processes, BytesCrossWhole) {
  start("receive");
  for (std::uint64_t i = 0; i < 20; ++i) {
    send(SendId(i), i * i * 10'000);
    ASSERT_TRUE(pump({&node}, [&] { return node.sent(SendId(i)).has_value(); }));
    EXPECT_EQ(node.sent(SendId(i)), Status::ok);
  }
  node->close(peer);
  ASSERT_TRUE(pump({&node}, [&] { return node.is_down(peer); }));
  EXPECT_EQ(child->wait(), 0) << "3: the child got other bytes";
}

TEST_P(Processes, AKilledReceiverEndsOpenSendsWithinTwoSecondsRST14) {
  start("receive");
  for (std::uint64_t i = 0; i < 8; ++i) send(SendId(i), payload);
  ASSERT_TRUE(pump(
      {&node}, [&] { return node.sent(SendId(0)).has_value(); }, 20s));
  child->signal(SIGKILL);
  const Instant start_of_wait = monotonic_now();
  ASSERT_TRUE(pump({&node, &bystander}, [&] { return node.is_down(peer); }));
  EXPECT_LT(monotonic_now() - start_of_wait, 2s);
  EXPECT_EQ(node.dones_at_down.at(peer).first, 8u);
  EXPECT_EQ(node.sent(SendId(7)), Status::peer_lost);
  expect_bystander_unaffected();
}

TEST_P(Processes, AKilledSenderEndsAcceptedReceivesWithinTwoSecondsRST14) {
  start("send");
  ASSERT_TRUE(pump(
      {&node}, [&] { return node.offers.size() >= 2; }, 20s));
  const OfferId first = node.offers[0].offer;
  const OfferId second = node.offers[1].offer;
  node->accept(first, std::vector{node.extent(0, payload)});
  node->accept(second, std::vector{node.extent(0, payload)});
  node.poll();
  child->signal(SIGKILL);
  const Instant start_of_wait = monotonic_now();
  ASSERT_TRUE(pump({&node, &bystander}, [&] { return node.is_down(peer); }));
  EXPECT_LT(monotonic_now() - start_of_wait, 2s);
  EXPECT_EQ(node.dones_at_down.at(peer).second, 2u);
  expect_nothing_more_is_written();
  expect_bystander_unaffected();
}

TEST_P(Processes, CloseEndsReceivesFromAStoppedSenderPromptly) {
  start("send");
  ASSERT_TRUE(pump(
      {&node}, [&] { return !node.offers.empty(); }, 20s));
  child->signal(SIGSTOP);
  const OfferId offer = node.offers.front().offer;
  node->accept(offer, std::vector{node.extent(0, payload)});
  node.poll();
  node->close(peer);
  const Instant start_of_wait = monotonic_now();
  ASSERT_TRUE(pump({&node, &bystander}, [&] { return node.is_down(peer); }));
  EXPECT_LT(monotonic_now() - start_of_wait, 200ms);
  ASSERT_TRUE(node.received(offer).has_value());
  std::fill(node.arena.span().begin(), node.arena.span().end(), guard);
  child->signal(SIGCONT);
  expect_nothing_more_is_written();
  expect_bystander_unaffected();
}

TEST_P(Processes, CancelEndsAReceiveFromAStoppedSenderPromptly) {
  start("send");
  ASSERT_TRUE(pump(
      {&node}, [&] { return !node.offers.empty(); }, 20s));
  child->signal(SIGSTOP);
  const OfferId offer = node.offers.front().offer;
  node->accept(offer, std::vector{node.extent(0, payload)});
  node->cancel_receive(offer);
  const Instant start_of_wait = monotonic_now();
  ASSERT_TRUE(pump({&node, &bystander}, [&] { return node.received(offer).has_value(); }));
  EXPECT_LT(monotonic_now() - start_of_wait, 1s);
  EXPECT_EQ(node.received(offer), Status::cancelled);
  child->signal(SIGCONT);
  expect_nothing_more_is_written();
  expect_bystander_unaffected();
}

TEST_P(Processes, ACancelledSendIsReusableThoughItsReceiverIsStopped) {
  start("receive");
  for (std::uint64_t i = 0; i < 4; ++i) send(SendId(i), payload);
  ASSERT_TRUE(pump(
      {&node}, [&] { return node.sent(SendId(0)).has_value(); }, 20s));
  child->signal(SIGSTOP);
  for (std::uint64_t i = 0; i < 4; ++i) node->cancel_send(SendId(i));
  const Instant start_of_wait = monotonic_now();
  ASSERT_TRUE(pump({&node, &bystander}, [&] { return node.send_dones.size() == 4; }));
  EXPECT_LT(monotonic_now() - start_of_wait, 1s);
  fill(std::vector{node.extent(0, payload)}, 4711);
  child->signal(SIGCONT);
  pump(
      {&node, &bystander}, [&] { return node.is_down(peer); }, 300ms);
  if (!node.is_down(peer)) node->close(peer);
  ASSERT_TRUE(pump({&node}, [&] { return node.is_down(peer); }));
  EXPECT_EQ(child->wait(), 0) << "3: the child took a torn payload for a good one";
  expect_bystander_unaffected();
}

}  // namespace
}  // namespace baton::transport::test
