#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "baton/router/core/workers.h"

namespace baton::router {
namespace {

using protocol::Role;
using std::chrono::milliseconds;
using std::chrono::seconds;

Worker worker(const std::string& node, Role role, std::int64_t backlog = 0) {
  Worker out;
  out.node = NodeId(node);
  out.role = role;
  out.epoch = Epoch(1);
  out.load.backlog_tokens = backlog;
  out.load.capacity_tokens = out.load.free_tokens = 10'000;
  return out;
}

PlacementNeed prefill_only(std::int64_t tokens = 100) {
  PlacementNeed need;
  need.tokens = tokens;
  need.needs_decode = false;
  return need;
}

protocol::Report report(std::int64_t backlog, bool draining = false) {
  protocol::Report out;
  out.load.backlog_tokens = backlog;
  out.draining = draining;
  return out;
}

TEST(Placement, RequestsSentSinceTheLastReportCount) {  // RTR-04
  Workers workers;
  workers.came_up(worker("p0", Role::prefill, 0));
  workers.came_up(worker("p1", Role::prefill, 1));
  std::mt19937_64 random(3);
  std::map<NodeId, int> counts;
  for (int i = 0; i < 8; ++i) {
    const auto placement = workers.place(prefill_only(), random);
    ++counts[placement->prefill->node];
    workers.placed(*placement->prefill, 100, Instant{});
  }
  EXPECT_THAT(counts[NodeId("p0")], testing::AllOf(testing::Ge(3), testing::Le(5)));
}

TEST(Placement, ReplicasDoNotStampedeToTheBestWorker) {  // RTR-05
  int sum_of_most = 0;
  constexpr int trials = 100;
  for (int trial = 0; trial < trials; ++trial) {
    std::map<NodeId, int> counts;
    for (int router = 0; router < 16; ++router) {
      Workers workers;
      for (int i = 0; i < 16; ++i) {
        workers.came_up(worker("p" + std::to_string(i), Role::prefill, i == 7 ? 990 : 1000));
      }
      std::mt19937_64 random(static_cast<std::uint64_t>(trial * 16 + router));
      ++counts[workers.place(prefill_only(), random)->prefill->node];
    }
    int most = 0;
    for (const auto& [node, count] : counts) most = std::max(most, count);
    sum_of_most += most;
  }
  EXPECT_LE(sum_of_most, 4 * trials);
}

TEST(Placement, UnrelatedRequestsOneByOneUseEqualWorkersAlike) {  // RTR-06
  Workers workers;
  workers.came_up(worker("p0", Role::prefill));
  workers.came_up(worker("p1", Role::prefill));
  std::mt19937_64 random(5);
  int first = 0;
  for (int i = 0; i < 100; ++i) {
    first += workers.place(prefill_only(), random)->prefill->node == NodeId("p0") ? 1 : 0;
  }
  EXPECT_THAT(first, testing::AllOf(testing::Ge(35), testing::Le(65)));
}

TEST(Placement, ADrainingWorkerGetsNothingNew) {  // RTR-09
  Workers workers;
  for (const char* node : {"p0", "p1"}) workers.came_up(worker(node, Role::prefill));
  for (const char* node : {"d0", "d1"}) workers.came_up(worker(node, Role::decode));
  workers.report({NodeId("p0"), Epoch(1)}, report(0, true), Instant{});
  workers.report({NodeId("d1"), Epoch(1)}, report(0, true), Instant{});
  PlacementNeed need;
  need.tokens = 10;
  std::mt19937_64 random(1);
  for (int i = 0; i < 50; ++i) {
    const auto placement = workers.place(need, random);
    EXPECT_EQ(placement->prefill->node, NodeId("p1"));
    EXPECT_EQ(placement->decode->node, NodeId("d0"));
  }
}

TEST(Placement, AWorkerThatIsDownGetsNothing) {
  Workers workers;
  workers.came_up(worker("p0", Role::prefill));
  workers.went_down({NodeId("p0"), Epoch(1)}, Instant{});
  std::mt19937_64 random(1);
  EXPECT_FALSE(workers.place(prefill_only(), random).has_value());
}

TEST(Placement, NewsOfAnEarlierLifeChangeNothing) {
  Workers workers;
  Worker reborn = worker("p0", Role::prefill);
  reborn.epoch = Epoch(2);
  workers.came_up(worker("p0", Role::prefill));
  EXPECT_TRUE(workers.came_up(reborn));
  workers.went_down({NodeId("p0"), Epoch(1)}, Instant{});
  workers.report({NodeId("p0"), Epoch(1)}, report(77, true), Instant{});
  EXPECT_TRUE(workers.is_up({NodeId("p0"), Epoch(2)}));
  EXPECT_FALSE(workers.find(NodeId("p0"))->draining);
}

TEST(Placement, OnlyWorkersOfOneFingerprintArePaired) {
  Workers workers;
  Worker other = worker("p0", Role::prefill);
  other.fingerprint.bytes[0] = 1;
  workers.came_up(other);
  workers.came_up(worker("d0", Role::decode));
  PlacementNeed need;
  std::mt19937_64 random(1);
  EXPECT_FALSE(workers.place(need, random).has_value());
  workers.came_up(worker("p1", Role::prefill));
  EXPECT_EQ(workers.place(need, random)->prefill->node, NodeId("p1"));
}

TEST(Placement, AStreamKeepsItsFingerprint) {
  Workers workers;
  Worker other = worker("p0", Role::prefill);
  other.fingerprint.bytes[0] = 1;
  workers.came_up(other);
  PlacementNeed need = prefill_only();
  need.fingerprint = Digest256{};
  std::mt19937_64 random(1);
  EXPECT_FALSE(workers.place(need, random).has_value());
}

TEST(Placement, AnAvoidedWorkerIsTakenOnlyWhenThereIsNoOther) {
  Workers workers;
  workers.came_up(worker("p0", Role::prefill));
  workers.came_up(worker("p1", Role::prefill, 5000));
  PlacementNeed need = prefill_only();
  need.avoid = {NodeId("p0")};
  std::mt19937_64 random(1);
  EXPECT_EQ(workers.place(need, random)->prefill->node, NodeId("p1"));
  workers.went_down({NodeId("p1"), Epoch(1)}, Instant{});
  EXPECT_EQ(workers.place(need, random)->prefill->node, NodeId("p0"));
}

Worker with_cache(Worker worker, std::int64_t tokens) {
  worker.info.cache_tokens = tokens;
  return worker;
}

TEST(Placement, ALongRequestGoesToTheWorkersWhoseCachesHoldIt) {
  Workers workers;
  workers.came_up(with_cache(worker("p0", Role::prefill), 599));
  workers.came_up(with_cache(worker("p1", Role::prefill, 5000), 600));
  workers.came_up(with_cache(worker("d0", Role::decode), 600));  // no room for the next position
  workers.came_up(with_cache(worker("d1", Role::decode), 601));
  PlacementNeed need;
  need.tokens = 600;
  need.avoid = {NodeId("p1"), NodeId("d1")};
  std::mt19937_64 random(1);
  for (int i = 0; i < 20; ++i) {
    const auto placement = workers.place(need, random);
    EXPECT_EQ(placement->prefill->node, NodeId("p1"));
    EXPECT_EQ(placement->decode->node, NodeId("d1"));
  }
  workers.went_down({NodeId("d1"), Epoch(1)}, Instant{});
  EXPECT_FALSE(workers.place(need, random).has_value());  // d0 would refuse it for good
  need.fingerprint = Digest256{};
  EXPECT_FALSE(workers.place_decode(need, random).has_value());
  need.tokens = 500;
  EXPECT_EQ(workers.place(need, random)->decode->node, NodeId("d0"));
}

TEST(Placement, ARequestThatNoCacheHoldsGoesToAWorkerThatRefusesIt) {
  Workers workers;
  workers.came_up(with_cache(worker("p0", Role::prefill), 100));
  workers.came_up(with_cache(worker("d0", Role::decode), 100));
  PlacementNeed need;
  need.tokens = 600;
  std::mt19937_64 random(1);
  EXPECT_TRUE(workers.place(need, random).has_value());
}

TEST(Placement, AReportReplacesWhatItCanShow) {
  Workers workers;
  workers.came_up(worker("p0", Role::prefill));
  workers.came_up(worker("p1", Role::prefill, 400));
  const WorkerRef p0{NodeId("p0"), Epoch(1)};
  std::mt19937_64 random(1);
  workers.placed(p0, 1000, Instant{});
  EXPECT_EQ(workers.place(prefill_only(), random)->prefill->node, NodeId("p1"));
  workers.report(p0, report(0), Instant{} + milliseconds(50));  // too early to show it
  EXPECT_EQ(workers.place(prefill_only(), random)->prefill->node, NodeId("p1"));
  workers.report(p0, report(0), Instant{} + milliseconds(500));
  EXPECT_EQ(workers.place(prefill_only(), random)->prefill->node, NodeId("p0"));
}

TEST(Placement, AWorkerThatIsLongLostIsForgotten) {
  Workers workers;
  workers.came_up(worker("p0", Role::prefill));
  workers.came_up(worker("p1", Role::prefill));
  workers.went_down({NodeId("p0"), Epoch(1)}, Instant{});
  workers.forget_lost(Instant{} + seconds(599), seconds(600));
  EXPECT_NE(workers.find(NodeId("p0")), nullptr);
  workers.forget_lost(Instant{} + seconds(600), seconds(600));
  EXPECT_EQ(workers.find(NodeId("p0")), nullptr);
  EXPECT_NE(workers.find(NodeId("p1")), nullptr);
}

// ---- decode workers that compute prompts ----

Worker computes(const std::string& node, std::int64_t tokens) {
  Worker out = worker(node, Role::decode);
  out.info.prefill_suffix_tokens = tokens;
  return out;
}

PlacementNeed both(std::int64_t tokens) {
  PlacementNeed need;
  need.tokens = tokens;
  return need;
}

TEST(Placement, AShortPromptGoesToADecodeWorkerAloneAndALongOneToAPair) {
  Workers workers;
  workers.came_up(worker("p0", Role::prefill));
  workers.came_up(computes("d0", 64));
  std::mt19937_64 random(1);
  EXPECT_FALSE(workers.place(both(64), random)->prefill);
  EXPECT_TRUE(workers.place(both(65), random)->prefill);
  EXPECT_TRUE(workers.place(prefill_only(10), random)->prefill);
}

TEST(Placement, ALongPromptThatIsThoughtToBeCachedIsTriedAlone) {
  Workers workers;
  workers.came_up(worker("p0", Role::prefill));
  workers.came_up(computes("d0", 64));
  std::mt19937_64 random(1);
  PlacementNeed need = both(1000);
  need.cached[NodeId("d0")] = 960;
  EXPECT_FALSE(workers.place(need, random)->prefill);
  need.cached[NodeId("d0")] = 900;
  EXPECT_TRUE(workers.place(need, random)->prefill);
}

TEST(Placement, TheDecodeWorkerThatHasThePrefixIsPreferred) {
  Workers workers;
  workers.came_up(worker("p0", Role::prefill));
  for (const char* node : {"d0", "d1", "d2"}) workers.came_up(computes(node, 64));
  std::mt19937_64 random(1);
  PlacementNeed need = both(1000);
  need.cached[NodeId("d1")] = 960;
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(workers.place(need, random)->decode->node, NodeId("d1"));
  }
}

TEST(Placement, PromptsThatWaitOnADecodeWorkerCount) {
  Workers workers;
  for (const char* node : {"d0", "d1"}) workers.came_up(computes(node, 5000));
  workers.report({NodeId("d0"), Epoch(1)}, report(4000), Instant{});
  std::mt19937_64 random(1);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(workers.place(both(100), random)->decode->node, NodeId("d1"));
  }
}

TEST(Placement, WithoutPrefillWorkersOnlyDecodeWorkersThatComputeAllOfItWillDo) {
  Workers workers;
  workers.came_up(computes("d0", 64));
  workers.came_up(computes("d1", 5000));
  workers.came_up(worker("d2", Role::decode));
  std::mt19937_64 random(1);
  for (int i = 0; i < 20; ++i) {
    const auto placement = workers.place(both(1000), random);
    EXPECT_EQ(placement->decode->node, NodeId("d1"));
    EXPECT_FALSE(placement->prefill);
  }
  EXPECT_EQ(workers.place(prefill_only(1000), random)->decode->node, NodeId("d1"));
  EXPECT_FALSE(workers.place(both(5001), random));
}

}  // namespace
}  // namespace baton::router
