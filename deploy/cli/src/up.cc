#include "up.h"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>

#include <boost/json.hpp>
#include <fmt/format.h>

#include "answer_stream.h"
#include "api.h"
#include "cluster.h"
#include "exit_code.h"
#include "facts.h"
#include "progress.h"

namespace baton::cli {
namespace {

constexpr Duration watch_time = std::chrono::seconds(1);

void print(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

/// As a chat where the model has a template, as plain text elsewhere.
Result<Answer> ask_first(Cluster& cluster, Signals& signals, const std::string& text,
                         std::int64_t max_tokens, const AnswerStream::OnText& on_text) {
  Prompt prompt;
  prompt.content = std::vector<Turn>{{"user", text}};
  prompt.sampling.max_tokens = max_tokens;
  const auto keep_going = [&] { return signals.stops() == 0 && cluster.check().has_value(); };
  Result<Answer> answer = ask(cluster.api(), prompt, on_text, keep_going);
  if (!answer && answer.error().reason() == Reason::no_chat_template) {
    prompt.content = text;
    answer = ask(cluster.api(), prompt, on_text, keep_going);
  }
  return answer;
}

/// `began`: when the cluster was started.
Result<void> show_first_answer(Cluster& cluster, Signals& signals, const UpOptions& options,
                               Instant began) {
  const std::string& text = options.once.empty() ? options.prompt : options.once;
  print(fmt::format("\n> {}\n", text));
  const Instant asked = monotonic_now();
  std::optional<Instant> first;
  const auto on_text = [&](std::string_view part) {
    if (!first) first = monotonic_now();
    print(part);
  };
  const Result<Answer> answer = ask_first(cluster, signals, text, options.max_tokens, on_text);
  if (!answer) {
    BATON_TRY(cluster.check());
    return answer.error();
  }
  print("\n\n" + time_report(*answer));
  if (first) {
    print(fmt::format("First text {:.2f} s after the question, {:.2f} s after the start\n",
                      seconds(*first - asked), seconds(*first - began)));
  }
  return ok();
}

Result<void> start(Cluster& cluster, const UpOptions& options) {
  Progress progress("Loading " + std::filesystem::path(options.model).filename().string());
  const Instant began = monotonic_now();
  Result<void> started = cluster.start([&](double share) { progress.set(share); });
  if (!started) {
    progress.abandon();
    return started;
  }
  progress.finish(fmt::format("ready after {:.1f} s", seconds(monotonic_now() - began)));
  return ok();
}

/// The admin listeners in the form of Prometheus's file_sd.
Result<void> write_targets(const std::string& path, const ClusterFacts& facts) {
  if (path.empty()) return ok();
  constexpr std::string_view scheme = "http://";
  boost::json::array targets{boost::json::string(facts.admin_url.substr(scheme.size()))};
  for (const boost::json::object& worker : facts.workers) {
    targets.emplace_back(text_at(worker, "admin").substr(scheme.size()));
  }
  std::error_code ignored;  // what fails here fails again on writing
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ignored);
  std::ofstream file(path);
  file << boost::json::array{boost::json::object{{"targets", std::move(targets)}}} << "\n";
  file.close();
  if (!file) return Error(Reason::bad_config, "--prometheus-targets: cannot write " + path);
  return ok();
}

Result<void> serve(Cluster& cluster, Signals& signals, const UpOptions& options) {
  const Instant began = monotonic_now();
  BATON_TRY(start(cluster, options));
  BATON_ASSIGN(const ClusterFacts facts, cluster.facts());
  print(banner(facts));
  BATON_TRY(write_targets(options.prometheus_targets, facts));
  Result<void> answered = show_first_answer(cluster, signals, options, began);
  if (!options.once.empty()) return answered;
  // A prompt that this model cannot take is no reason to end: others may come.
  if (!answered && signals.stops() == 0) {
    BATON_TRY(cluster.check());
    report(answered.error());
  }
  if (signals.stops() == 0) print("\nCtrl-C stops everything.\n");
  while (signals.stops() == 0) {
    BATON_TRY(cluster.check());
    signals.wait(watch_time);
  }
  return ok();
}

}  // namespace

int up(const UpOptions& options) {
  Signals signals;
  if (const Result<void> found = check_model_file(options.model); !found) {
    return report(found.error());
  }
  Result<RunFolder> folder = RunFolder::create(options.keep_logs);
  if (!folder) return report(folder.error());
  Cluster cluster(options, std::move(*folder), signals);
  const Result<void> served = serve(cluster, signals, options);
  int code = 0;
  if (!served) {
    code = report(served.error());
    if (cluster.failed_code()) code = *cluster.failed_code();
  }
  cluster.stop();
  return code;
}

}  // namespace baton::cli
