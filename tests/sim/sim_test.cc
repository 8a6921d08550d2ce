// The product's cores under seeds. A failure prints the seed; the same seed gives the same run.
#include <algorithm>
#include <cstdlib>
#include <random>

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

/// A fixed list of seeds and a few fresh ones. BATON_SIM_SEEDS sets the length of the list,
/// BATON_SIM_FIRST its first seed (then there are no fresh ones).
std::vector<std::uint64_t> seeds() {
  const char* count_text = std::getenv("BATON_SIM_SEEDS");
  const char* first_text = std::getenv("BATON_SIM_FIRST");
  const int count = count_text == nullptr ? 20 : std::atoi(count_text);
  std::vector<std::uint64_t> out;
  const std::uint64_t first = first_text == nullptr ? 1 : std::strtoull(first_text, nullptr, 10);
  for (int i = 0; i < count; ++i) out.push_back(first + static_cast<std::uint64_t>(i));
  if (first_text != nullptr) return out;
  constexpr int fresh = 3;
  std::random_device device;
  for (int i = 0; i < fresh; ++i) out.push_back(1'000'000 + device());
  return out;
}

void add_up(Outcome& sum, const Outcome& outcome) {
  sum.finished += outcome.finished;
  sum.failed += outcome.failed;
  sum.dropped += outcome.dropped;
  sum.attempts += outcome.attempts;
  sum.kills += outcome.kills;
  sum.router_kills += outcome.router_kills;
  sum.cuts += outcome.cuts;
  sum.flips += outcome.flips;
  sum.wrong_held += outcome.wrong_held;
  sum.stops += outcome.stops;
  sum.duplicates += outcome.duplicates;
  sum.preemptions += outcome.preemptions;
  sum.refused_units += outcome.refused_units;
  sum.leases_expired += outcome.leases_expired;
  sum.orphans_freed += outcome.orphans_freed;
  sum.prefix_hit_tokens += outcome.prefix_hit_tokens;
  sum.held_units += outcome.held_units;
  sum.local_rows += outcome.local_rows;
  sum.ended_at_s = std::max(sum.ended_at_s, outcome.ended_at_s);
  for (const auto& [reason, count] : outcome.failures) sum.failures[reason] += count;
  for (const auto& [reason, count] : outcome.attempt_reasons) sum.attempt_reasons[reason] += count;
  sum.dropped_after.insert(outcome.dropped_after.begin(), outcome.dropped_after.end());
}

void print(const Outcome& sum) {
  std::printf(
      "%d finished, %d failed, %d dropped, %d attempts, %d kills, %d router kills, %d cuts, "
      "%d flips, %d stops, %d duplicates, %d preemptions, %d refused, %d leases, %d orphans, "
      "%lld prefix tokens, %lld held units, %d wrong, %lld local rows, longest %.1f s\n",
      sum.finished, sum.failed, sum.dropped, sum.attempts, sum.kills, sum.router_kills, sum.cuts,
      sum.flips, sum.stops, sum.duplicates, sum.preemptions, sum.refused_units, sum.leases_expired,
      sum.orphans_freed, static_cast<long long>(sum.prefix_hit_tokens),
      static_cast<long long>(sum.held_units), sum.wrong_held,
      static_cast<long long>(sum.local_rows), sum.ended_at_s);
  for (const auto& [reason, count] : sum.failures) {
    std::printf("  failed, %s: %d\n", std::string(info(reason).label).c_str(), count);
  }
  for (const auto& [reason, count] : sum.attempt_reasons) {
    std::printf("  attempt, %s: %d\n", std::string(info(reason).label).c_str(), count);
  }
}

/// Every seed must end without a violation and without a failed request; counters prove what the
/// worlds went through.
Outcome sum_over_seeds(Options options) {
  Outcome sum;
  for (std::uint64_t seed : seeds()) {
    options.seed = seed;
    options.log = std::getenv("BATON_SIM_LOG") != nullptr;
    const Outcome outcome = World(options).run();
    EXPECT_THAT(outcome.violations, testing::IsEmpty()) << describe(options, outcome);
    EXPECT_EQ(outcome.failed, 0) << describe(options, outcome);
    if (!outcome.violations.empty()) break;
    add_up(sum, outcome);
  }
  print(sum);
  return sum;
}

TEST(Sim, WithoutFaultsEveryRequestFinishesInOneAttempt) {
  const Outcome sum = sum_over_seeds({});
  EXPECT_EQ(sum.attempts, 0);
  EXPECT_GT(sum.prefix_hit_tokens, 0);
  EXPECT_GT(sum.held_units, 0);
}

TEST(Sim, ASmallDecodePoolPreemptsAndStillGivesTheSameTokens) {
  Options options;
  options.decode_blocks = 14;
  options.decode_nodes = 1;
  options.requests = 80;
  const Outcome sum = sum_over_seeds(options);
  EXPECT_GT(sum.preemptions, 0);
}

TEST(Sim, CancelsInAnyStateLeaveNothingBehind) {
  Options options;
  options.cancel_chance = 0.6;
  const Outcome sum = sum_over_seeds(options);
  EXPECT_GT(sum.dropped, 0);
}

TEST(Sim, KilledWorkersDoNotEndStreamsNorChangeTokens) {
  Options options;
  options.kills_per_second = 2;
  options.cancel_chance = 0.1;
  const Outcome sum = sum_over_seeds(options);
  EXPECT_GT(sum.kills, 0);
  EXPECT_GT(sum.attempts, 0);
}

/// Nobody can finish a request whose only workers are gone; it has to be told so, soon.
TEST(Sim, RequestsOfWorkersThatStayAwayEndSoonAllTheSame) {  // HNG-21
  Options options;
  options.prefill_nodes = 1;
  options.decode_nodes = 1;
  options.kills_per_second = 0.5;
  options.stops_per_second = 2;
  options.longest_stop_seconds = 2;
  options.longest_absence_seconds = 120;
  Outcome sum;
  for (std::uint64_t seed : seeds()) {
    options.seed = seed;
    const Outcome outcome = World(options).run();
    ASSERT_THAT(outcome.violations, testing::IsEmpty()) << describe(options, outcome);
    // The table's own waits (for space 30 s, for a handoff 15 s, …), not the request's deadline.
    EXPECT_LT(outcome.longest_request_s, 60) << describe(options, outcome);
    add_up(sum, outcome);
  }
  print(sum);
  EXPECT_GT(sum.failures[Reason::worker_lost], 0);
}

TEST(Sim, CutConnectionsAreSurvived) {
  Options options;
  options.cuts_per_second = 5;
  const Outcome sum = sum_over_seeds(options);
  EXPECT_GT(sum.cuts, 0);
}

TEST(Sim, FlippedBitsNeverReachADecodeStep) {
  Options options;
  options.flip_chance = 0.1;
  const Outcome sum = sum_over_seeds(options);
  EXPECT_GT(sum.flips, 0);
}

/// A decode node takes part of a prompt from its own prefix cache; should that be wrong, the commit
/// is refused, and the next attempt brings everything.
TEST(Sim, HeldUnitsThatDifferAreNeverDecodedOnAndAreSentTheNextTime) {
  Options options;
  options.wrong_held_chance = 0.3;
  options.requests = 120;
  options.decode_blocks = 24;
  options.thread_latency = std::chrono::milliseconds(1);
  const Outcome sum = sum_over_seeds(options);
  EXPECT_GT(sum.wrong_held, 0);
  EXPECT_GT(sum.attempt_reasons.at(Reason::held_units_differ), 0);
}

TEST(Sim, DecodeNodesThatComputeShortSuffixesGiveTheSameTokens) {
  Options options;
  options.prefill_suffix_tokens = 40;
  options.one_token_chance = 0.1;
  options.decode_blocks = 20;
  options.cancel_chance = 0.1;
  options.thread_latency = std::chrono::milliseconds(1);
  const Outcome sum = sum_over_seeds(options);
  EXPECT_GT(sum.local_rows, 0);
  EXPECT_GT(sum.held_units, 0);
  EXPECT_EQ(sum.attempts, 0);
}

TEST(Sim, DecodeNodesAloneServeEverything) {
  Options options;
  options.prefill_suffix_tokens = 1000;
  options.prefill_nodes = 0;
  options.one_token_chance = 0.1;
  options.drop_chance = 0.2;
  const Outcome sum = sum_over_seeds(options);
  EXPECT_EQ(sum.attempts, 0);
  EXPECT_EQ(sum.held_units, 0);
}

/// Prompts of both ways, in a world where everything fails now and then.
TEST(Sim, LocalPromptsSurviveWhatHandedOverOnesDo) {
  Options options;
  options.prefill_suffix_tokens = 40;
  options.routers = 2;
  options.kills_per_second = 1;
  options.router_kills_per_second = 0.3;
  options.cuts_per_second = 3;
  options.stops_per_second = 1;
  options.flip_chance = 0.02;
  options.wrong_held_chance = 0.1;
  options.cancel_chance = 0.1;
  options.drop_chance = 0.1;
  options.duplicate_chance = 0.02;
  options.one_token_chance = 0.1;
  options.decode_blocks = 20;
  options.prefill_blocks = 24;
  options.thread_latency = std::chrono::milliseconds(1);
  EXPECT_GT(sum_over_seeds(options).local_rows, 0);
}

TEST(Sim, DecodeNodesAloneSurviveFaults) {
  Options options;
  options.prefill_suffix_tokens = 1000;
  options.prefill_nodes = 0;
  options.kills_per_second = 1;
  options.cuts_per_second = 3;
  options.stops_per_second = 1;
  options.drop_chance = 0.1;
  options.duplicate_chance = 0.02;
  options.decode_blocks = 20;
  EXPECT_GT(sum_over_seeds(options).kills, 0);
}

TEST(Sim, ClientsThatLeaveAfterAnyMessageLeaveNothingBehind) {
  Options options;
  options.drop_chance = 0.8;
  options.thread_latency = std::chrono::milliseconds(1);
  const Outcome sum = sum_over_seeds(options);
  for (const char* message : {"reserve", "prefill", "granted", "target", "tokens", "handoff_ended",
                              "owned", "release", "gone"}) {
    EXPECT_TRUE(sum.dropped_after.contains(message)) << message;
  }
}

TEST(Sim, LateCopiesOfMessagesChangeNothing) {
  Options options;
  options.duplicate_chance = 0.1;
  options.drop_chance = 0.2;
  const Outcome sum = sum_over_seeds(options);
  EXPECT_GT(sum.duplicates, 0);
  EXPECT_EQ(sum.attempts, 0);
}

TEST(Sim, LateCopiesAcrossNewConnectionsChangeNothing) {
  Options options;
  options.duplicate_chance = 0.1;
  options.cuts_per_second = 5;
  options.drop_chance = 0.2;
  options.thread_latency = std::chrono::milliseconds(1);
  sum_over_seeds(options);
}

TEST(Sim, RequestsForOneTokenNeedNoDecodeWorker) {
  Options options;
  options.one_token_chance = 1;
  options.cuts_per_second = 2;
  sum_over_seeds(options);
}

TEST(Sim, ASmallPrefillPoolHoldsPromptsBackAndLosesNone) {
  Options options;
  options.prefill_blocks = 12;
  options.prefill_nodes = 1;
  options.requests = 80;
  options.one_token_chance = 0.1;
  options.cancel_chance = 0.1;
  options.thread_latency = std::chrono::milliseconds(2);
  sum_over_seeds(options);
}

/// Computed prompts that wait for grants, and grants that wait for prompts.
TEST(Sim, SmallPoolsOnBothSidesDoNotWaitForEachOther) {  // HNG-28
  Options options;
  options.prefill_blocks = 24;
  options.decode_blocks = 22;
  options.routers = 2;
  options.requests = 300;
  options.thread_latency = std::chrono::milliseconds(1);
  for (options.decode_nodes = 1; options.decode_nodes <= 2; ++options.decode_nodes) {
    sum_over_seeds(options);
  }
}

/// Who waits for space at one node and gets it at another holds nobody up at the first, and keeps
/// no blocks at one while it asks the other.
TEST(Sim, ASecondDecodeNodeMakesACrowdWaitLess) {
  Options options;
  options.decode_blocks = 16;
  options.prefill_blocks = 128;
  options.requests = 200;
  options.thread_latency = std::chrono::milliseconds(1);
  double one = 0;
  double two = 0;
  for (options.seed = 1; options.seed <= 4; ++options.seed) {
    for (options.decode_nodes = 1; options.decode_nodes <= 2; ++options.decode_nodes) {
      const Outcome outcome = World(options).run();
      ASSERT_THAT(outcome.violations, testing::IsEmpty());
      EXPECT_EQ(outcome.failed, 0);
      (options.decode_nodes == 1 ? one : two) += outcome.ended_at_s;
    }
  }
  EXPECT_LT(two, 0.6 * one);
}

TEST(Sim, WindowsLongerAndShorterThanPromptsAreHandedOver) {
  for (int window : {1, 2, 16, 17, 100, 4096}) {
    Options options;
    options.window = window;
    options.flip_chance = 0.02;
    options.kills_per_second = 0.5;
    options.prefill_blocks = 40;
    options.requests = 12;
    sum_over_seeds(options);
  }
}

/// As in the product, where a window's pool is sized by the window and not by the prompts.
TEST(Sim, PromptsLongerThanTheWindowsPoolAreHandedOver) {
  Options options;
  options.prefill_window_blocks = 8;
  options.decode_window_blocks = 12;
  options.prefill_nodes = 1;
  sum_over_seeds(options);
}

/// Started prompts fill the window's pool of the prefill node, and none of them can go on.
TEST(Sim, PromptsThatHoldEachOthersWindowBlocksAreAllComputed) {
  Options options;
  options.window = 100;
  options.prefill_window_blocks = 7;
  options.prefill_nodes = 1;
  options.requests = 80;
  options.thread_latency = std::chrono::milliseconds(1);
  const Outcome sum = sum_over_seeds(options);
  EXPECT_GT(sum.preemptions, 0);
}

TEST(Sim, AStopLongerThanTheLeaseEndsWhatTheWorkerHeld) {
  Options options;
  options.stops_per_second = 1;
  options.longest_stop_seconds = 6;
  const Outcome sum = sum_over_seeds(options);
  EXPECT_GT(sum.leases_expired, 0);
}

TEST(Sim, RoutersShareWorkersAndDoNotDisturbEachOther) {
  Options options;
  options.routers = 2;
  options.cancel_chance = 0.2;
  const Outcome sum = sum_over_seeds(options);
  EXPECT_EQ(sum.attempts, 0);
}

TEST(Sim, ADeadRoutersRequestsEndOnEveryWorker) {
  Options options;
  options.routers = 2;
  options.router_kills_per_second = 1;
  options.kills_per_second = 0.5;
  options.cuts_per_second = 2;
  options.thread_latency = std::chrono::milliseconds(1);
  const Outcome sum = sum_over_seeds(options);
  EXPECT_GT(sum.router_kills, 0);
}

TEST(Sim, EverythingAtOnce) {
  Options options;
  options.routers = 2;
  options.kills_per_second = 1;
  options.router_kills_per_second = 0.3;
  options.cuts_per_second = 2;
  options.stops_per_second = 2;
  options.flip_chance = 0.02;
  options.cancel_chance = 0.1;
  options.drop_chance = 0.1;
  options.duplicate_chance = 0.02;
  options.one_token_chance = 0.1;
  options.decode_blocks = 20;
  options.prefill_blocks = 24;
  options.window = 100;
  options.prefill_window_blocks = 8;
  options.thread_latency = std::chrono::milliseconds(1);
  sum_over_seeds(options);
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

/// Each planted bug, and the world that makes it matter.
struct Planted {
  const char* name;
  Plant plant;
  void (*world)(Options&);
};

void PrintTo(const Planted& planted, std::ostream* out) { *out << planted.name; }

class PlantedBug : public testing::TestWithParam<Planted> {};

TEST_P(PlantedBug, IsFoundByASeedAndTheSameWorldWithoutItIsClean) {
  Options options;
  GetParam().world(options);
  std::uint64_t found = 0;
  for (options.seed = 1; options.seed <= 60 && found == 0; ++options.seed) {
    options.plant = GetParam().plant;
    const Outcome outcome = World(options).run();
    if (!outcome.violations.empty() || outcome.failed > 0) found = options.seed;
  }
  ASSERT_NE(found, 0U);
  options.seed = found;
  options.plant = Plant::nothing;
  options.log = std::getenv("BATON_SIM_LOG") != nullptr;
  const Outcome clean = World(options).run();
  EXPECT_THAT(clean.violations, testing::IsEmpty());
  EXPECT_EQ(clean.failed, 0) << describe(options, clean);
}

void many_drops(Options& options) {
  options.drop_chance = 0.8;
  options.requests = 120;
  options.prefill_blocks = 24;
  options.decode_blocks = 20;
}

void wrong_held(Options& options) {
  options.wrong_held_chance = 0.3;
  options.requests = 120;
}

INSTANTIATE_TEST_SUITE_P(
    Sim, PlantedBug,
    testing::Values(Planted{"VerificationSkipped", Plant::skip_verification,
                            [](Options& options) { options.flip_chance = 0.1; }},
                    Planted{"SentBlocksReleasedEarly", Plant::release_early, many_drops},
                    Planted{"QuarantineSkipped", Plant::skip_quarantine, many_drops},
                    Planted{"GenerationsNotChecked", Plant::write_unchecked,
                            [](Options& options) {
                              many_drops(options);
                              options.drop_chance = 0.5;
                              options.prefill_blocks = 16;
                            }},
                    Planted{"CancelNotRepeated", Plant::skip_repeats,
                            [](Options& options) {
                              options.cuts_per_second = 10;
                              options.cancel_chance = 0.5;
                            }},
                    Planted{"AnswersNotRepeated", Plant::skip_worker_repeats,
                            [](Options& options) { options.cuts_per_second = 10; }},
                    Planted{"DecodeStartsBeforeTheEnd", Plant::decode_before_end, [](Options&) {}},
                    Planted{"TombstonesForgotten", Plant::forget_tombstones,
                            [](Options& options) {
                              options.duplicate_chance = 0.1;
                              options.drop_chance = 0.5;
                            }},
                    Planted{"IndexedBeforeTheStepHasEnded", Plant::index_unfinished, many_drops},
                    Planted{"HeldUnitsTrusted", Plant::trust_held, wrong_held},
                    Planted{"WrongHeldUnitsStayIndexed", Plant::keep_wrong_held,
                            [](Options& options) {
                              wrong_held(options);
                              options.decode_nodes = 1;  // no other would have it right
                            }},
                    Planted{"HeldUnitsReceivedAgain", Plant::send_held, [](Options&) {}},
                    Planted{"LowerLegsAccepted", Plant::accept_lower_legs,
                            [](Options& options) {
                              options.duplicate_chance = 0.1;
                              options.flip_chance = 0.3;
                            }}),
    [](const auto& each) { return std::string(each.param.name); });

}  // namespace
}  // namespace baton::sim
