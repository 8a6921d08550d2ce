#include "complete.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <mutex>
#include <optional>
#include <thread>

#include <unistd.h>

#include "api.h"
#include "exit_code.h"
#include "local.h"
#include "progress.h"

namespace baton::cli {
namespace {

void print(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

Result<Prompt> single_prompt(const CompleteOptions& options) {
  Prompt prompt;
  prompt.sampling = options.sampling;
  if (!options.tokens_file.empty()) {
    BATON_ASSIGN(const std::string text, read_file(options.tokens_file));
    BATON_ASSIGN(prompt.content, parse_ids(text));
  } else if (options.chat) {
    prompt.content = std::vector<Turn>{{"user", options.prompt}};
  } else {
    prompt.content = options.prompt;
  }
  return prompt;
}

Result<std::unique_ptr<LocalModel>> load(const worker::WorkerConfig& engine) {
  BATON_TRY(check_model_file(engine.model));
  if (isatty(STDERR_FILENO) == 0) return LocalModel::load(engine, {});
  Progress progress("Loading " + engine.model);
  auto model = LocalModel::load(engine, [&](double share) { progress.set(share); });
  progress.abandon();
  return model;
}

/// Prints what came; returns the exit code.
int print_outcome(const CompleteOptions& options, const Result<Answer>& answer) {
  if (options.json) {
    print((answer ? answer_json(*answer) : error_json(answer.error())) + "\n");
    return answer ? 0 : exit_code(answer.error().reason());
  }
  if (!answer) return report(answer.error());
  print("\n");
  for (const std::string& digest : answer->logits_digests) print(digest + "\n");
  return 0;
}

int complete_one(const CompleteOptions& options) {
  const Result<Prompt> prompt = single_prompt(options);
  if (!prompt) return report(prompt.error());
  const auto on_text = [&](std::string_view text) {
    if (!options.json) print(text);
  };
  if (options.local) {
    const auto model = load(options.engine);
    if (!model) return report(model.error());
    return print_outcome(options, (*model)->complete(*prompt, on_text));
  }
  const Result<Endpoint> api = parse_url(options.url);
  if (!api) return report(api.error());
  return print_outcome(options, ask(*api, *prompt, on_text));
}

/// Prints each answer of a batch as soon as those before it are printed.
class BatchPrinter {
 public:
  explicit BatchPrinter(std::size_t count) : lines_(count) {}

  void take(std::size_t index, const Result<Answer>& answer) {
    std::lock_guard lock(mutex_);
    lines_[index] = answer ? answer_json(*answer) : error_json(answer.error());
    if (!answer && code_ == 0) code_ = exit_code(answer.error().reason());
    for (; printed_ < lines_.size() && lines_[printed_]; ++printed_) {
      print(*lines_[printed_] + "\n");
      lines_[printed_]->clear();
    }
  }
  int code() const { return code_; }

 private:
  std::mutex mutex_;
  std::vector<std::optional<std::string>> lines_;
  std::size_t printed_ = 0;
  int code_ = 0;
};

void ask_all(const Endpoint& api, const std::vector<Prompt>& prompts, std::size_t concurrency,
             BatchPrinter& printer) {
  std::atomic<std::size_t> next = 0;
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < std::min(concurrency, prompts.size()); ++i) {
    threads.emplace_back([&] {
      for (std::size_t at = next++; at < prompts.size(); at = next++) {
        printer.take(at, ask(api, prompts[at], [](std::string_view) {}));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

int complete_batch(const CompleteOptions& options) {
  const Result<std::vector<Prompt>> prompts =
      read_batch(options.batch_file, options.sampling, options.chat);
  if (!prompts) return report(prompts.error());
  BatchPrinter printer(prompts->size());
  const auto concurrency = static_cast<std::size_t>(options.concurrency);
  if (options.local) {
    const auto model = load(options.engine);
    if (!model) return report(model.error());
    (*model)->complete_all(
        *prompts, concurrency,
        [&](std::size_t index, const Result<Answer>& answer) { printer.take(index, answer); });
    return printer.code();
  }
  const Result<Endpoint> api = parse_url(options.url);
  if (!api) return report(api.error());
  ask_all(*api, *prompts, concurrency, printer);
  return printer.code();
}

}  // namespace

int complete(const CompleteOptions& options) {
  return options.batch_file.empty() ? complete_one(options) : complete_batch(options);
}

}  // namespace baton::cli
