#include "bench_serve.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <mutex>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <fmt/format.h>

#include "baton/base/time.h"

#include "api.h"
#include "exit_code.h"
#include "median.h"
#include "stream_gaps.h"

namespace baton::cli {
namespace {

/// Mostly one token a word; the number keeps prompts apart, those of other runs too, so that no
/// cache of prefixes helps.
std::string words(std::int64_t count, std::uint64_t salt) {
  static constexpr std::string_view list[] = {"river", "stone", "light",  "garden", "paper",
                                              "water", "music", "summer", "window", "street"};
  std::string text = fmt::format("Note {}:", salt);
  std::uint64_t state = salt * 2654435761U + 1;
  for (std::int64_t i = 0; i < count; ++i) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    text.append(" ").append(list[(state >> 33) % std::size(list)]);
  }
  return text;
}

Prompt prompt_of(std::int64_t count, std::uint64_t salt, std::int64_t max_tokens) {
  Prompt prompt;
  prompt.content = words(count, salt);
  prompt.sampling.max_tokens = max_tokens;
  prompt.sampling.ignore_eos = true;
  return prompt;
}

/// Threads that hold streams open, and what came when.
class Load {
 public:
  Load(const BenchServeOptions& options, const Endpoint& api) : options_(options), api_(api) {}
  ~Load() { stop(); }

  void start_streams() {
    for (int i = 0; i < options_.streams; ++i) {
      threads_.emplace_back([this, i] { hold_stream(static_cast<std::uint64_t>(i)); });
    }
  }
  void send_long_prompt() {
    const std::uint64_t salt = first_salt_ + 1'000'000 + prompts_++;
    threads_.emplace_back([this, salt] { ask_long_prompt(salt); });
  }
  void stop() {
    stopping_ = true;
    for (std::thread& each : threads_) each.join();
    threads_.clear();
  }
  /// Every stream has given a piece, or something failed.
  bool running() {
    std::lock_guard lock(mutex_);
    return failed_ || started_ >= options_.streams;
  }
  std::optional<Error> failure() {
    std::lock_guard lock(mutex_);
    return failed_;
  }
  std::vector<StreamTimes> streams() {
    std::lock_guard lock(mutex_);
    return streams_;
  }
  std::vector<double> first_token_seconds() {
    std::lock_guard lock(mutex_);
    return first_token_seconds_;
  }

 private:
  void note(const Error& error) {
    std::lock_guard lock(mutex_);
    if (!failed_) failed_ = error;
  }
  bool going() { return !stopping_ && !failure(); }

  void hold_stream(std::uint64_t index) {
    for (std::uint64_t round = 0; going(); ++round) {
      std::size_t slot = 0;
      {
        std::lock_guard lock(mutex_);
        slot = streams_.size();
        streams_.emplace_back();
      }
      const auto on_text = [&](std::string_view text) {
        if (text.empty()) return;
        std::lock_guard lock(mutex_);
        streams_[slot].push_back(monotonic_now());
        if (round == 0 && streams_[slot].size() == 1) ++started_;
      };
      const Result<Answer> answer =
          ask(api_,
              prompt_of(options_.stream_words, first_salt_ + index * 1000 + round,
                        options_.stream_tokens),
              on_text, [this] { return going(); });
      if (!answer && going()) note(answer.error());
    }
  }
  void ask_long_prompt(std::uint64_t salt) {
    const Instant start = monotonic_now();
    std::optional<double> first;
    const auto on_text = [&](std::string_view) {
      if (!first) first = seconds(monotonic_now() - start);
    };
    const Result<Answer> answer =
        ask(api_, prompt_of(options_.prompt_words, salt, 2), on_text, [this] { return going(); });
    if (!answer && going()) return note(answer.error());
    std::lock_guard lock(mutex_);
    if (first) first_token_seconds_.push_back(*first);
  }

  const BenchServeOptions& options_;
  Endpoint api_;
  const std::uint64_t first_salt_ = std::uint64_t{std::random_device()()} << 24;
  std::mutex mutex_;
  std::vector<StreamTimes> streams_;
  std::vector<double> first_token_seconds_;
  std::optional<Error> failed_;
  int started_ = 0;
  std::uint64_t prompts_ = 0;
  std::atomic<bool> stopping_ = false;
  std::vector<std::thread> threads_;
};

boost::json::object facts_of(const GapReport& report) {
  return {{"longest_gap_ms", seconds(report.longest) * 1000},
          {"median_gap_ms", seconds(report.median) * 1000},
          {"stalled_share", report.stalled_share},
          {"above_500_ms_share", report.half_second_share},
          {"tokens_per_second", report.pieces_per_second}};
}

/// Waits until `until`, looking out for a failure.
bool wait_until(Load& load, Instant until) {
  while (monotonic_now() < until) {
    if (load.failure()) return false;
    std::this_thread::sleep_for(
        std::min<Duration>(until - monotonic_now(), std::chrono::milliseconds(50)));
  }
  return true;
}

Result<boost::json::object> measure(const BenchServeOptions& options, const Endpoint& api) {
  constexpr Duration start_limit = std::chrono::minutes(2);
  const auto part =
      std::chrono::duration_cast<Duration>(std::chrono::duration<double>(options.duration_s));
  const auto every =
      std::chrono::duration_cast<Duration>(std::chrono::duration<double>(options.every_s));
  Load load(options, api);
  load.start_streams();
  const Instant give_up = monotonic_now() + start_limit;
  while (!load.running() && monotonic_now() < give_up) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  if (!load.running()) return Error(Reason::deadline_exceeded, "the streams do not start");
  const Instant quiet = monotonic_now();
  const Instant disturbed = quiet + part;
  const Instant end = disturbed + part;
  bool fine = wait_until(load, disturbed);
  for (Instant next = disturbed; fine && next < end; next += every) {
    load.send_long_prompt();
    fine = wait_until(load, std::min(next + every, end));
  }
  const std::optional<Error> failure = load.failure();
  load.stop();
  if (failure) return *failure;
  const std::vector<StreamTimes> streams = load.streams();
  const GapReport before = gaps_of(streams, quiet, disturbed);
  const GapReport after = gaps_of(streams, disturbed, end, before.median);
  const std::vector<double> first = load.first_token_seconds();
  return boost::json::object{{"undisturbed", facts_of(before)},
                             {"with_long_prompts", facts_of(after)},
                             {"long_prompts", first.size()},
                             {"long_prompt_ttft_s", median(first)}};
}

void print(const BenchServeOptions& options, const boost::json::object& result) {
  fmt::print("{} streams, a prompt of {} words every {} s, {} s each part\n", options.streams,
             options.prompt_words, options.every_s, options.duration_s);
  fmt::print("{:<18} {:>12} {:>12} {:>9} {:>10} {:>9}\n", "", "longest ms", "median ms", "stalled",
             "> 500 ms", "tokens/s");
  for (const char* part : {"undisturbed", "with_long_prompts"}) {
    const boost::json::object& facts = result.at(part).as_object();
    const auto number = [&](const char* key) { return facts.at(key).to_number<double>(); };
    fmt::print("{:<18} {:>12.1f} {:>12.1f} {:>8.1f}% {:>9.1f}% {:>9.1f}\n", part,
               number("longest_gap_ms"), number("median_gap_ms"), 100 * number("stalled_share"),
               100 * number("above_500_ms_share"), number("tokens_per_second"));
  }
  fmt::print("long prompts answered {}, median time to first token {:.3f} s\n",
             result.at("long_prompts").to_number<int>(),
             result.at("long_prompt_ttft_s").to_number<double>());
}

}  // namespace

int bench_serve(const BenchServeOptions& options) {
  const Result<Endpoint> api = parse_url(options.url);
  if (!api) return report(api.error());
  const Result<boost::json::object> result = measure(options, *api);
  if (!result) return report(result.error());
  if (options.json) {
    fmt::print("{}\n", boost::json::serialize(*result));
  } else {
    print(options, *result);
  }
  return 0;
}

}  // namespace baton::cli
