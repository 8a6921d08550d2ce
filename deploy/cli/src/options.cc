#include "options.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include <CLI/CLI.hpp>

#include "baton/worker/processors.h"

namespace baton::cli {
namespace {

constexpr std::string_view default_url = "http://127.0.0.1:8000";
constexpr std::string_view default_admin_url = "http://127.0.0.1:8001";
constexpr std::string_view model_file = "models/SmolLM2-135M-Instruct.Q4_1.gguf";

void add_sampling(CLI::App& app, Sampling& sampling) {
  app.add_option("--max-tokens", sampling.max_tokens, "Most tokens of an answer")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1'000'000'000}))
      ->capture_default_str();
  app.add_option("--temperature", sampling.temperature, "0: always the likeliest token")
      ->check(CLI::Range(0.0, 100.0))
      ->capture_default_str();
  app.add_option("--top-p", sampling.top_p, "Draw from the likeliest tokens of this probability")
      ->check(CLI::Range(1e-6, 1.0))
      ->capture_default_str();
  app.add_option("--top-k", sampling.top_k, "Draw from so many likeliest tokens; 0: all")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 30))
      ->capture_default_str();
  app.add_option("--seed", sampling.seed, "The same seed gives the same answer; default: random");
}

/// Not CLI11's envname: a variable would count as given, and --local would then refuse it.
std::string from_environment(const char* variable, std::string_view otherwise) {
  const char* value = std::getenv(variable);
  return std::string(value != nullptr && *value != '\0' ? value : otherwise);
}

void add_url(CLI::App& app, std::string& url) {
  url = from_environment("BATON_URL", default_url);
  app.add_option("--url", url, "API of a running cluster; environment BATON_URL")
      ->capture_default_str();
}

/// What is no list of processors is an error of usage; what may not be used shows at the start.
CLI::Option* add_cpus(CLI::App& app, std::string& cpus, const std::string& help) {
  const auto wrong = [](const std::string& text) {
    const Result<worker::ProcessorList> list = worker::parse_processors(text);
    return list ? std::string() : list.error().message();
  };
  return app.add_option("--cpus", cpus, help)->type_name("LIST")->check(wrong);
}

/// `group` heads them in the help text.
void add_engine(CLI::App& app, worker::WorkerConfig& engine, const std::string& group) {
  app.add_option("--model", engine.model, "Model file (GGUF); default: the one of `baton up`")
      ->group(group);
  app.add_option("--threads", engine.threads, "Kernel threads; 0: the cores it may use")
      ->check(CLI::Range(0, 1024))
      ->group(group);
  add_cpus(app, engine.cpus, "Processors to compute on, e.g. 0-3,6; default: any")->group(group);
  app.add_option("--kernels", engine.kernels, "Kernel set: cpu (the fastest), or one by name")
      ->group(group);
  app.add_option("--cache-dtype", engine.cache_dtype, "Element type of cached keys and values")
      ->transform(CLI::CheckedTransformer(tensor::cache_dtypes()))
      ->default_str(std::string(tensor::name(engine.cache_dtype)))
      ->group(group);
  app.add_option("--cache-tokens", engine.cache_tokens, "Positions that the cache holds")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1'000'000'000}))
      ->group(group);
  app.add_option("--context-length", engine.context_length, "Longest sequence; 0: the model's own")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{10'000'000}))
      ->group(group);
  app.add_option("--chunk-rows", engine.chunk_rows, "Most rows of one prompt in a step")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1'000'000}))
      ->capture_default_str()
      ->group(group);
  app.add_flag("--sequential-prefill", engine.sequential_prefill,
               "Compute prompts one token at a time (a check: slow, the same bits)")
      ->group(group);
  app.add_flag("!--no-prefix-cache", engine.prefix_cache,
               "Compute prompts of a batch whole, also where they begin alike (the same bits)")
      ->group(group);
}

/// Options of both kinds of node that `baton up` hands on as they are.
void add_node_flags(CLI::App& app, UpOptions& options) {
  const auto add = [&](const std::string& flag, const std::string& type, const std::string& help) {
    app.add_option_function<std::string>(
           flag,
           [&options, flag](const std::string& value) {
             options.node_flags.emplace_back(flag, value);
           },
           help)
        ->type_name(type)
        ->group("of each node");
  };
  add("--transports", "LIST", "Data transports in the order of preference: shm, ucx");
  add("--threads", "N", "Kernel threads of a node; without --cpus: where the system likes");
  add("--kernels", "NAME", "Kernel set");
  add("--cache-tokens", "N", "Positions that a node's cache holds");
  add("--cache-dtype", "bf16|f32|q8_0", "Element type of cached keys and values");
  add("--context-length", "N", "Longest sequence");
  add("--token-budget", "N", "Most rows of a step");
  add("--chunk-rows", "N", "Most rows of one prompt in a step");
  add("--prefill-suffix-tokens", "N",
      "Decode nodes compute a prompt with at most so many tokens not cached");
  add("--step-budget", "TIME",
      "Longest step with prompts beside streams, e.g. 50ms (a quarter above the streams' own steps "
      "where those leave less); 0s: no limit");
  add("--log-level", "LEVEL", "debug, info, warning or error");
}

CLI::App* add_up(CLI::App& app, UpOptions& up) {
  CLI::App* command = app.add_subcommand("up", "Start a cluster on this machine");
  command->add_option("--model", up.model, "Model file (GGUF); default: " + default_model_path());
  command->add_option("--once", up.once, "Answer this prompt, stop all processes and exit")
      ->type_name("PROMPT");
  command->add_option("--prompt", up.prompt, "What is asked after the start")
      ->capture_default_str();
  command->add_option("--max-tokens", up.max_tokens, "Most tokens of that answer")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1'000'000}))
      ->capture_default_str();
  command
      ->add_option("--prefill-nodes", up.prefill_nodes,
                   "How many; 0: decode nodes compute what --prefill-suffix-tokens allows")
      ->check(CLI::Range(0, 64))
      ->capture_default_str();
  command->add_option("--decode-nodes", up.decode_nodes, "How many")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  command->add_option("--port", up.port, "Port of the API on 127.0.0.1; 0: chosen by the system")
      ->check(CLI::Range(0, 65535));
  command->add_option("--admin-port", up.admin_port, "Port of the router's admin listener")
      ->check(CLI::Range(0, 65535));
  command->add_option("--keep-logs", up.keep_logs, "Folder for the nodes' logs; else removed")
      ->type_name("DIR");
  add_cpus(
      *command, up.cpus,
      "Processors that the nodes share, e.g. 0-3,6: each gets a part of its own; default: all");
  command
      ->add_option("--prometheus-targets", up.prometheus_targets,
                   "File that gets the addresses to scrape")
      ->type_name("FILE");
  command->add_option("--ready-within", up.ready_within_s, "Seconds until all must be ready")
      ->check(CLI::Range(1.0, 86400.0))
      ->capture_default_str();
  add_node_flags(*command, up);
  return command;
}

CLI::App* add_complete(CLI::App& app, CompleteOptions& complete) {
  CLI::App* command = app.add_subcommand("complete", "Continue a prompt");
  command->add_option("prompt", complete.prompt, "Text to continue");
  command->add_flag("--chat", complete.chat, "The prompt is a user's turn of a chat");
  command->add_option("--tokens-file", complete.tokens_file, "The prompt is this file's token ids")
      ->type_name("FILE");
  command
      ->add_option("--batch", complete.batch_file,
                   "Several prompts, one a line: {\"prompt\": \"…\" or [ids], \"max_tokens\": n}")
      ->type_name("FILE");
  command->add_option("--concurrency", complete.concurrency, "Prompts of a batch at a time")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  add_url(*command, complete.url);
  command->add_flag("--local", complete.local, "In this process, without a handoff");
  command->add_flag("--json", complete.json, "Print a JSON object: text, ids, times, handoff");
  command->add_flag("--logits-digest", complete.sampling.logits_digest,
                    "Print the digest of the logits of each token");
  command->add_flag("--ignore-eos", complete.sampling.ignore_eos, "Go on to --max-tokens");
  add_sampling(*command, complete.sampling);
  add_engine(*command, complete.engine, "of --local");
  return command;
}

CLI::App* add_bench_engine(CLI::App& bench, BenchEngineOptions& options) {
  CLI::App* command = bench.add_subcommand(
      "engine", "Prefill and decode in this process, beside the machine's limits");
  command
      ->add_option("--cells", options.cells,
                   "What to measure: prefill-N, decode-DEPTH, decode-DEPTHxSEQUENCES; default: the "
                   "usual ones")
      ->type_name("LIST");
  command->add_option("--repeats", options.repeats, "Runs of a cell; the median counts")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_option("--decode-steps", options.decode_steps, "Steps that a decode run counts")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{100'000}))
      ->capture_default_str();
  command->add_flag("--json", options.json, "Print a JSON object a line: the set-up, then cells");
  command->add_option("--token-budget", options.engine.token_budget, "Most rows of a step")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1'000'000}))
      ->capture_default_str();
  options.engine.chunk_rows = options.engine.token_budget;
  add_engine(*command, options.engine, "of the engine");
  return command;
}

CLI::App* add_bench_serve(CLI::App& bench, BenchServeOptions& options) {
  CLI::App* command = bench.add_subcommand(
      "serve", "Streams of a running server, first alone, then while long prompts arrive");
  add_url(*command, options.url);
  command->add_option("--streams", options.streams, "Streams that are held open")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  command->add_option("--stream-words", options.stream_words, "Words of a stream's prompt")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{100'000}))
      ->capture_default_str();
  command->add_option("--stream-tokens", options.stream_tokens, "Tokens of a stream")
      ->check(CLI::Range(std::int64_t{2}, std::int64_t{1'000'000}))
      ->capture_default_str();
  command->add_option("--prompt-words", options.prompt_words, "Words of a long prompt")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1'000'000}))
      ->capture_default_str();
  command->add_option("--every", options.every_s, "Seconds between long prompts")
      ->check(CLI::Range(0.01, 3600.0))
      ->capture_default_str();
  command->add_option("--duration", options.duration_s, "Seconds of each of the two parts")
      ->check(CLI::Range(0.1, 3600.0))
      ->capture_default_str();
  command->add_flag("--json", options.json, "Print a JSON object");
  return command;
}

/// What CLI11 cannot say: which options go together.
std::string conflict(const CLI::App& app, const UpOptions& up) {
  if (app.count("--once") > 0 && up.once.empty()) return "--once: the prompt is empty";
  if (up.prefill_nodes > 0 || app.count("--prefill-suffix-tokens") > 0) return "";
  if (!from_environment("BATON_DECODE_PREFILL_SUFFIX_TOKENS", "").empty()) return "";
  return "--prefill-nodes 0 needs --prefill-suffix-tokens: somebody must compute prompts";
}

std::string conflict(const CLI::App& app, CompleteOptions& complete) {
  const auto given = [&app](const std::string& name) { return app.count(name) > 0; };
  const int sources = int{given("prompt")} + int{given("--tokens-file")} + int{given("--batch")};
  if (sources != 1) return "one of PROMPT, --tokens-file and --batch is needed";
  if (given("--chat") && given("--tokens-file")) return "--chat needs a prompt of text";
  if (given("--concurrency") && !given("--batch")) return "--concurrency needs --batch";
  if (complete.local && given("--url")) return "--local and --url exclude each other";
  if (!complete.local) {
    for (const CLI::Option* option : app.get_options()) {
      if (option->get_group() == "of --local" && option->count() > 0) {
        return option->get_name() + " needs --local; a cluster's nodes have it from `baton up`";
      }
    }
  } else if (complete.engine.model.empty()) {
    complete.engine.model = default_model_path();
  }
  return "";
}

Stop usage_error(const std::string& what) {
  return {64, "baton: " + what + " (see baton --help)\n"};
}

}  // namespace

std::string default_model_path() {
  const std::string base =
      from_environment("XDG_CACHE_HOME", from_environment("HOME", "") + "/.cache");
  return from_environment("BATON_CACHE", base + "/baton") + "/" + std::string(model_file);
}

Result<void> check_model_file(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_regular_file(path, error)) return ok();
  return Error(Reason::bad_config,
               "model: " + path + " is no file; deploy/fetch-model fetches the default model");
}

ParsedCommand parse_command(std::vector<std::string> arguments) {
  CLI::App app("Disaggregated LLM serving: prefill and decode on separate workers", "baton");
  app.require_subcommand(1);
  UpOptions up;
  CompleteOptions complete;
  ChatOptions chat;
  StatusOptions status;
  CLI::App* up_command = add_up(app, up);
  CLI::App* complete_command = add_complete(app, complete);
  CLI::App* chat_command = app.add_subcommand("chat", "Talk to a running cluster");
  add_url(*chat_command, chat.url);
  chat_command->add_option("--system", chat.system, "System message")->type_name("TEXT");
  add_sampling(*chat_command, chat.sampling);
  chat.sampling.max_tokens = 512;
  CLI::App* status_command = app.add_subcommand("status", "Show a running cluster's workers");
  status.url = from_environment("BATON_ADMIN_URL", default_admin_url);
  status_command
      ->add_option("--url", status.url, "Admin listener of a router; environment BATON_ADMIN_URL")
      ->capture_default_str();
  status_command->add_flag("--json", status.json, "Print a JSON object");
  app.add_subcommand("version", "Print the version");
  CLI::App* bench = app.add_subcommand("bench", "Measure");
  bench->require_subcommand(1);
  BenchEngineOptions bench_engine;
  CLI::App* bench_engine_command = add_bench_engine(*bench, bench_engine);
  BenchServeOptions bench_serve;
  CLI::App* bench_serve_command = add_bench_serve(*bench, bench_serve);
  std::reverse(arguments.begin(), arguments.end());  // CLI11 takes them from the back
  try {
    app.parse(std::move(arguments));
  } catch (const CLI::Success&) {
    const auto parsed = app.get_subcommands();
    return Stop{0, parsed.empty() ? app.help() : parsed.back()->help()};
  } catch (const CLI::ParseError& error) {
    return usage_error(error.what());
  }
  if (*up_command) {
    const std::string wrong = conflict(*up_command, up);
    if (!wrong.empty()) return usage_error("up: " + wrong);
    if (up.model.empty()) up.model = default_model_path();
    return Command(std::move(up));
  }
  if (*complete_command) {
    const std::string wrong = conflict(*complete_command, complete);
    if (!wrong.empty()) return usage_error("complete: " + wrong);
    return Command(std::move(complete));
  }
  if (*chat_command) return Command(std::move(chat));
  if (*status_command) return Command(std::move(status));
  if (*bench_serve_command) return Command(std::move(bench_serve));
  if (*bench_engine_command) {
    if (bench_engine.engine.model.empty()) bench_engine.engine.model = default_model_path();
    return Command(std::move(bench_engine));
  }
  return Command(VersionOptions{});
}

}  // namespace baton::cli
