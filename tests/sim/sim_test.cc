// The product's cores under seeds. A failure prints the seed; the same seed gives the same run.
#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "world.h"

namespace baton::sim {
namespace {

std::string describe(const Options& options, const Outcome& outcome) {
  std::string out = "seed " + std::to_string(options.seed) + ": " +
                    std::to_string(outcome.finished) + " finished, " +
                    std::to_string(outcome.failed) + " failed";
  for (const auto& [reason, count] : outcome.failures) {
    out += ", " + std::string(info(reason).label) + " " + std::to_string(count);
  }
  for (const std::string& violation : outcome.violations) out += "\n  " + violation;
  return out;
}

/// BATON_SIM_SEEDS raises the number of seeds; BATON_SIM_FIRST replays from one.
int seeds() {
  const char* text = std::getenv("BATON_SIM_SEEDS");
  return text == nullptr ? 40 : std::atoi(text);
}
std::uint64_t first_seed() {
  const char* text = std::getenv("BATON_SIM_FIRST");
  return text == nullptr ? 1 : std::strtoull(text, nullptr, 10);
}

Outcome sum_over_seeds(Options options) {
  Outcome sum;
  for (int i = 0; i < seeds(); ++i) {
    options.seed = first_seed() + static_cast<std::uint64_t>(i);
    options.log = std::getenv("BATON_SIM_LOG") != nullptr;
    const Outcome outcome = World(options).run();
    EXPECT_THAT(outcome.violations, testing::IsEmpty()) << describe(options, outcome);
    if (!outcome.violations.empty()) break;
    sum.finished += outcome.finished;
    sum.failed += outcome.failed;
    sum.dropped += outcome.dropped;
    sum.attempts += outcome.attempts;
    sum.kills += outcome.kills;
    sum.cuts += outcome.cuts;
    sum.flips += outcome.flips;
    sum.stops += outcome.stops;
    sum.preemptions += outcome.preemptions;
    for (const auto& [reason, count] : outcome.failures) sum.failures[reason] += count;
    for (const auto& [reason, count] : outcome.attempt_reasons) {
      sum.attempt_reasons[reason] += count;
    }
  }
  std::printf(
      "%d finished, %d failed, %d dropped, %d attempts, %d kills, %d cuts, %d flips, "
      "%d stops, %d preemptions\n",
      sum.finished, sum.failed, sum.dropped, sum.attempts, sum.kills, sum.cuts, sum.flips,
      sum.stops, sum.preemptions);
  for (const auto& [reason, count] : sum.failures) {
    std::printf("  failed, %s: %d\n", std::string(info(reason).label).c_str(), count);
  }
  for (const auto& [reason, count] : sum.attempt_reasons) {
    std::printf("  attempt, %s: %d\n", std::string(info(reason).label).c_str(), count);
  }
  return sum;
}

TEST(Sim, WithoutFaultsEveryRequestFinishesInOneAttempt) {
  const Outcome sum = sum_over_seeds({});
  EXPECT_EQ(sum.failed, 0);
  EXPECT_EQ(sum.attempts, 0);
}

TEST(Sim, ASmallDecodePoolPreemptsAndStillGivesTheSameTokens) {
  Options options;
  options.decode_blocks = 14;
  options.decode_nodes = 1;
  options.requests = 80;
  const Outcome sum = sum_over_seeds(options);
  EXPECT_EQ(sum.failed, 0);
  EXPECT_GT(sum.preemptions, 0);
}

TEST(Sim, CancelsInAnyStateLeaveNothingBehind) {
  Options options;
  options.cancel_chance = 0.6;
  const Outcome sum = sum_over_seeds(options);
  EXPECT_EQ(sum.failed, 0);
  EXPECT_GT(sum.dropped, 0);
}

TEST(Sim, KilledWorkersDoNotEndStreamsNorChangeTokens) {
  Options options;
  options.kills_per_second = 2;
  options.cancel_chance = 0.1;
  const Outcome sum = sum_over_seeds(options);
  EXPECT_EQ(sum.failed, 0);
  EXPECT_GT(sum.kills, 0);
  EXPECT_GT(sum.attempts, 0);
}

TEST(Sim, CutConnectionsAreSurvived) {
  Options options;
  options.cuts_per_second = 5;
  const Outcome sum = sum_over_seeds(options);
  EXPECT_EQ(sum.failed, 0);
  EXPECT_GT(sum.cuts, 0);
}

TEST(Sim, FlippedBitsNeverReachADecodeStep) {
  Options options;
  options.flip_chance = 0.1;
  const Outcome sum = sum_over_seeds(options);
  EXPECT_EQ(sum.failed, 0);
  EXPECT_GT(sum.flips, 0);
}

TEST(Sim, EverythingAtOnce) {
  Options options;
  options.kills_per_second = 1;
  options.cuts_per_second = 2;
  options.stops_per_second = 2;
  options.flip_chance = 0.02;
  options.cancel_chance = 0.2;
  options.decode_blocks = 20;
  const Outcome sum = sum_over_seeds(options);
  EXPECT_EQ(sum.failed, 0);
}

TEST(Sim, ASeedGivesTheSameRunTwice) {
  Options options;
  options.seed = 5;
  options.kills_per_second = 2;
  options.cuts_per_second = 2;
  const Outcome first = World(options).run();
  const Outcome second = World(options).run();
  EXPECT_EQ(first.trace, second.trace);
  options.seed = 6;
  EXPECT_NE(World(options).run().trace, first.trace);
}

TEST(Sim, PlantedBugSkippedVerificationIsFound) {
  Options options;
  options.skip_verification = true;
  options.flip_chance = 0.1;
  bool found = false;
  for (options.seed = 1; options.seed <= 20 && !found; ++options.seed) {
    found = !World(options).run().violations.empty();
  }
  EXPECT_TRUE(found);
}

}  // namespace
}  // namespace baton::sim
