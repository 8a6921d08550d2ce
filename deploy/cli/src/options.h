// The command line as values. Options that only the nodes interpret stay text: the node's own table
// judges them.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <boost/system/result.hpp>

#include "baton/base/result.h"
#include "baton/worker/config.h"

#include "bench_engine.h"
#include "bench_serve.h"
#include "prompt.h"

namespace baton::cli {

struct UpOptions {
  std::string model;  ///< empty: the default model, if it is in the cache folder
  std::string once;   ///< answer this prompt and stop; empty: stay up
  std::string prompt = "Say hello in five words.";  ///< asked after the start
  std::int64_t max_tokens = 64;
  int prefill_nodes = 1;
  int decode_nodes = 1;
  int port = 0;  ///< of the API; 0: chosen by the system
  int admin_port = 0;
  std::string cpus;       ///< processors that the workers share; empty: those that may be used
  std::string keep_logs;  ///< folder for the nodes' logs; empty: removed at the end
  std::string prometheus_targets;  ///< file that gets the admin listeners for Prometheus
  double ready_within_s = 300;
  /// Flags for the nodes, e.g. {"--threads", "1"}, as given.
  std::vector<std::pair<std::string, std::string>> node_flags;
};

struct CompleteOptions {
  std::string prompt;
  bool chat = false;
  std::string tokens_file;
  std::string batch_file;
  std::string url;
  bool local = false;
  worker::WorkerConfig engine;  ///< of --local
  Sampling sampling;
  bool json = false;
  int concurrency = 1;
};

struct ChatOptions {
  std::string url;
  std::string system;
  Sampling sampling;
};

struct StatusOptions {
  std::string url;  ///< of the router's admin listener
  bool json = false;
};

struct VersionOptions {};

using Command = std::variant<UpOptions, CompleteOptions, ChatOptions, StatusOptions,
                             BenchEngineOptions, BenchServeOptions, VersionOptions>;

/// What to print instead of running a command: a help text (code 0) or what is wrong (code 64).
struct Stop {
  int code = 0;
  std::string text;
};

using ParsedCommand = std::variant<Command, Stop>;

/// `arguments` without the program's name.
ParsedCommand parse_command(std::vector<std::string> arguments);

/// Where deploy/fetch-model keeps the default model.
std::string default_model_path();

/// Reason::bad_config when there is no file, and where to get one.
Result<void> check_model_file(const std::string& path);

}  // namespace baton::cli
