#include "baton/metrics/registry.h"

#include <cstdio>
#include <fstream>
#include <sstream>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "baton/metrics/buckets.h"

namespace baton::metrics {
namespace {

using ::testing::HasSubstr;

enum class Outcome { ok, refused, cancelled };
const LabelAxis outcome_axis = {"outcome", {"ok", "refused", "cancelled"}};

/// A series of node r0 of the routers, with further labels.
std::string at(const std::string& name, const std::string& labels = "") {
  return name + "{node=\"r0\",role=\"router\"" + (labels.empty() ? "" : "," + labels) + "}";
}

/// Lines that are series, not comments.
std::vector<std::string> series(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty() && line[0] != '#') out.push_back(line);
  }
  return out;
}

TEST(Registry, ConstantLabelsStandOnEverySeries) {
  Registry registry("router", "r0");
  registry.counter("baton_things_total", "Things.").add(3);
  registry.gauge("baton_level", "Level.").set(-1.5);
  EXPECT_THAT(registry.expose(), HasSubstr("baton_things_total{node=\"r0\",role=\"router\"} 3\n"));
  EXPECT_THAT(registry.expose(), HasSubstr("baton_level{node=\"r0\",role=\"router\"} -1.5\n"));
  EXPECT_THAT(registry.expose(), HasSubstr("# HELP baton_things_total Things.\n"));
  EXPECT_THAT(registry.expose(), HasSubstr("# TYPE baton_level gauge\n"));
}

// K8S-14: an autoscaler whose query finds no series does nothing, and nobody notices.
TEST(Registry, K8S14EverySeriesExistsWithZeroBeforeTheFirstEvent) {
  Registry registry("router", "r0");
  registry.counters("baton_requests_total", "Requests.", outcome_axis);
  registry.histograms("baton_phase_seconds", "Phases.", phase_buckets_s, {"phase", {"queue"}});
  const std::string text = registry.expose();
  for (const auto& value : outcome_axis.values) {
    EXPECT_THAT(text, HasSubstr(at("baton_requests_total", "outcome=\"" + value + "\"") + " 0\n"));
  }
  EXPECT_THAT(text, HasSubstr(at("baton_phase_seconds_count", "phase=\"queue\"") + " 0\n"));
}

TEST(Registry, AnEnumeratorFindsItsSeries) {
  Registry registry("router", "r0");
  auto requests = registry.counters("baton_requests_total", "Requests.", outcome_axis);
  requests[Outcome::cancelled].add();
  requests[Outcome::cancelled].add();
  requests[Outcome::ok].add(-5);  // a counter never falls
  EXPECT_EQ(requests[Outcome::cancelled].value(), 2);
  EXPECT_EQ(requests[Outcome::ok].value(), 0);
  EXPECT_THAT(registry.expose(), HasSubstr(",outcome=\"cancelled\"} 2\n"));
}

// SEC-16: a label's text cannot become a series of its own.
TEST(Registry, SEC16LabelTextIsEscapedAndMadeValid) {
  Registry registry("router", "n\"\\\nbaton_forged 1");
  registry.counter("baton_a_total", "A.", {{"model", "m\xff\xc0\xaf\xed\xa0\x80 \xe7\x95\x8c"}});
  const std::string text = registry.expose();
  EXPECT_EQ(series(text).size(), 1u);
  EXPECT_THAT(text, HasSubstr(R"(node="n\"\\\nbaton_forged 1")"));
  EXPECT_THAT(text, HasSubstr("model=\"m?????? \xe7\x95\x8c\""));
  Registry long_label("router", std::string(127, 'x') + "\xe7\x95\x8c");
  long_label.counter("baton_a_total", "A.");
  EXPECT_THAT(long_label.expose(), HasSubstr("\"" + std::string(127, 'x') + "\""));
}

TEST(Registry, SEC16WhatOnlyLooksLikeACharacterIsNone) {
  struct Case {
    const char* text;
    const char* shown;
  };
  for (const Case& each : {
           Case{"\xe0\x9f\xbf", "???"},                   // two bytes would do
           Case{"\xe0\xa0\x80", "\xe0\xa0\x80"},          // the first of three
           Case{"\xf0\x8f\xbf\xbf", "????"},              // three bytes would do
           Case{"\xf0\x90\x80\x80", "\xf0\x90\x80\x80"},  // the first of four
           Case{"\xf4\x8f\xbf\xbf", "\xf4\x8f\xbf\xbf"},  // the last there is
           Case{"\xf4\x90\x80\x80", "????"}, Case{"\xf5\x80\x80\x80", "????"},
           Case{"\xed\x9f\xbf", "\xed\x9f\xbf"},  // before the surrogates
           Case{"\xe7\x95", "??"},                // cut off
       }) {
    Registry registry("router", "r0");
    registry.counter("baton_a_total", "A.", {{"model", each.text}});
    EXPECT_THAT(registry.expose(), HasSubstr("model=\"" + std::string(each.shown) + "\""));
  }
}

TEST(Registry, SEC16InvalidBytesAreBoundedToo) {
  Registry registry("router", std::string(1000, '\xff'));
  registry.counter("baton_a_total", "A.");
  EXPECT_THAT(registry.expose(), HasSubstr("\"" + std::string(128, '?') + "\""));
}

TEST(Registry, AnAxisAndFurtherLabelsStandBesideEachOther) {
  Registry registry("router", "r0");
  const Labels more = {{"pool", "p"}};
  registry.counters("baton_a_total", "A.", outcome_axis, more)[Outcome::ok].add();
  registry.gauges("baton_b", "B.", outcome_axis, more)[Outcome::refused].set(2);
  registry.histograms("baton_c_seconds", "C.", phase_buckets_s, outcome_axis, more)[0].observe(1.0);
  const std::string text = registry.expose();
  const auto labels = [](const std::string& outcome) {
    return "{node=\"r0\",role=\"router\",outcome=\"" + outcome + "\",pool=\"p\"}";
  };
  EXPECT_THAT(text, HasSubstr("baton_a_total" + labels("ok") + " 1\n"));
  EXPECT_THAT(text, HasSubstr("baton_b" + labels("refused") + " 2\n"));
  EXPECT_THAT(text, HasSubstr("baton_c_seconds_count" + labels("ok") + " 1\n"));
}

TEST(Registry, AGaugeIsSetAndAddedTo) {
  Registry registry("router", "r0");
  Gauge level = registry.gauge("baton_level", "Level.");
  level.set(5);
  level.add(2);
  level.add(-4);
  EXPECT_EQ(level.value(), 3);
}

// MET-12: what a client sends never becomes a series.
TEST(BoundedNames, MET12UnknownNamesCountAsOther) {
  Registry registry("router", "r0");
  const BoundedNames models("model", {"smollm2", "other", "smollm2", "gemma3"});
  EXPECT_EQ(models.axis().values, (std::vector<std::string>{"smollm2", "gemma3", "other"}));
  auto requests = registry.counters("baton_requests_total", "Requests.", models.axis());
  const std::size_t before = series(registry.expose()).size();
  for (int i = 0; i < 1000; ++i) requests[models.index("random-" + std::to_string(i))].add();
  requests[models.index("gemma3")].add();
  EXPECT_EQ(series(registry.expose()).size(), before);
  EXPECT_THAT(registry.expose(), HasSubstr(",model=\"other\"} 1000\n"));
  EXPECT_THAT(registry.expose(), HasSubstr(",model=\"gemma3\"} 1\n"));
}

// MET-03: no latency that can happen ends in the +Inf bucket.
TEST(Buckets, MET03LongRequestsFallIntoDifferentFiniteBuckets) {
  Registry registry("router", "r0");
  auto request = registry.histogram("baton_request_seconds", "Requests.", request_buckets_s);
  request.observe(std::chrono::seconds(1));
  request.observe(std::chrono::seconds(70));
  request.observe(std::chrono::seconds(400));
  const std::string text = registry.expose();
  EXPECT_THAT(text, HasSubstr(",le=\"1\"} 1\n"));
  EXPECT_THAT(text, HasSubstr(",le=\"60\"} 1\n"));
  EXPECT_THAT(text, HasSubstr(",le=\"120\"} 2\n"));
  EXPECT_THAT(text, HasSubstr(",le=\"240\"} 2\n"));
  EXPECT_THAT(text, HasSubstr(",le=\"480\"} 3\n"));
  EXPECT_THAT(text, HasSubstr(",le=\"+Inf\"} 3\n"));
  EXPECT_THAT(text, HasSubstr(at("baton_request_seconds_sum") + " 471\n"));
}

// MET-04: the buckets tell fast from very fast: neighbours are within a factor of 5 (vLLM's first
// step from 1 to 5 ms), and the median of times of about 5 ms is found within a factor of 2.
TEST(Buckets, MET04SmallLatenciesAreVisible) {
  for (const auto& [first, second] : {std::pair{ttft_buckets_s[0], ttft_buckets_s[1]},
                                      std::pair{token_gap_buckets_s[0], token_gap_buckets_s[1]}}) {
    EXPECT_LE(first, 0.001);
    EXPECT_LE(second / first, 5.0 + 1e-9);
  }
  Registry registry("router", "r0");
  auto gaps = registry.histogram("baton_gap_seconds", "Gaps.", token_gap_buckets_s);
  for (int i = 0; i < 10; ++i) gaps.observe(std::chrono::microseconds(4900 + i));
  EXPECT_THAT(registry.expose(), HasSubstr(",le=\"0.0025\"} 0\n"));
  EXPECT_THAT(registry.expose(), HasSubstr(",le=\"0.005\"} 10\n"));
}

TEST(Registry, HooksRunBeforeEachExposition) {
  Registry registry("router", "r0");
  Gauge age = registry.gauge("baton_age_seconds", "Age.");
  int calls = 0;
  int others = 0;
  registry.before_expose([&] { age.set(++calls); });
  registry.before_expose([&] { ++others; });
  EXPECT_THAT(registry.expose(), HasSubstr(at("baton_age_seconds") + " 1\n"));
  EXPECT_THAT(registry.expose(), HasSubstr(at("baton_age_seconds") + " 2\n"));
  EXPECT_EQ(others, 2);
}

TEST(Registry, HandlesMayBeUsedOnAnyThreadWhileItIsExposed) {
  Registry registry("router", "r0");
  Counter events = registry.counter("baton_events_total", "Events.");
  Histogram times = registry.histogram("baton_times_seconds", "Times.", ttft_buckets_s);
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([events, times]() mutable {
      for (int i = 0; i < 2000; ++i) {
        events.add();
        times.observe(0.01);
      }
    });
  }
  for (int i = 0; i < 20; ++i) registry.expose();
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(events.value(), 6000);
  EXPECT_THAT(registry.expose(), HasSubstr(at("baton_times_seconds_count") + " 6000\n"));
}

TEST(RegistryDeathTest, WrongOrContradictingNamesAreBugs) {
  Registry registry("router", "r0");
  registry.counter("baton_a_total", "A.", {{"x", "1"}});
  EXPECT_DEATH(registry.counter("baton a", "A."), "internal error");
  EXPECT_DEATH(registry.counter("baton_b_total", ""), "internal error");
  EXPECT_DEATH(registry.counter("baton_b_total", "B.", {{"1x", "1"}}), "internal error");
  EXPECT_DEATH(registry.counter("baton_b_total", "B.", {{"role", "1"}}), "internal error");
  EXPECT_DEATH(registry.counter("baton_a_total", "A.", {{"x", "1"}}), "internal error");
  EXPECT_DEATH(registry.counter("baton_a_total", "A.", {{"y", "1"}}), "internal error");
  EXPECT_DEATH(registry.gauge("baton_a_total", "A.", {{"x", "2"}}), "internal error");
  EXPECT_DEATH(registry.counter("baton_a_total", "Another.", {{"x", "2"}}), "internal error");
  EXPECT_DEATH(registry.counter("baton_b_total", "B.", {{"x", "1"}, {"x", "2"}}), "internal error");
  EXPECT_DEATH(registry.gauge("baton_b", "B.", {{"le", "1"}}), "internal error");
  auto axis = registry.counters("baton_c_total", "C.", outcome_axis);
  EXPECT_DEATH(axis[3].add(), "internal error");
}

TEST(RegistryDeathTest, BucketsOfOneNameAreTheSameAndAscend) {
  Registry registry("router", "r0");
  const auto add = [&](const std::string& value, const std::vector<double>& edges) {
    registry.histogram("baton_h_seconds", "H.", edges, {{"x", value}});
  };
  add("1", {1, 2});
  EXPECT_DEATH(add("2", {1, 3}), "internal error");
  add("3", {1, 2});
  const auto alone = [&](const std::vector<double>& edges) {
    registry.histogram("baton_i_seconds", "I.", edges);
  };
  EXPECT_DEATH(alone({}), "internal error");
  EXPECT_DEATH(alone({2, 1}), "internal error");
  EXPECT_DEATH(alone({1, 1}), "internal error");
}

TEST(Registry, PromtoolFindsNothingToSay) {
  if (std::system("promtool --version > /dev/null 2>&1") != 0) {
    GTEST_SKIP() << "promtool (Debian package prometheus) is not installed";
  }
  Registry registry("router", "r\"0\n");
  registry.counters("baton_requests_total", "Requests by outcome.", outcome_axis);
  registry.gauge("baton_cache_usage_ratio", "Share of blocks in use.", {{"group", "full"}});
  registry.histogram("baton_time_to_first_token_seconds", "TTFT.", ttft_buckets_s).observe(0.5);
  registry.histogram("baton_inter_token_latency_seconds", "ITL.", token_gap_buckets_s);
  const std::string path = ::testing::TempDir() + "baton_promtool-" + std::to_string(getpid());
  std::ofstream(path) << registry.expose();
  const int status = std::system(("promtool check metrics < " + path).c_str());
  std::remove(path.c_str());
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace baton::metrics
