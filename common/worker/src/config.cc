#include "baton/worker/config.h"

#include <chrono>

#include "baton/worker/processors.h"

namespace baton::worker {

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

void add_network_options(ConfigTable& table, WorkerConfig& c) {
  table.add("control_listen", &c.control_listen, "Address for routers and peers; port 0: any free");
  table.add("advertise", &c.advertise, "Host under which others reach this node");
  table.add("transports", &c.transports, "Data transports in the order of preference: shm, ucx");
  table.add("data_listen", &c.data_listen, "Address of the ucx data plane; port 0: any free");
  table.add("lease", &c.lease, DurationRange{seconds(1), seconds(600)},
            "How long a silent router's requests are held");
  table.add("drain_grace", &c.drain_grace, DurationRange{milliseconds(0), seconds(3600)},
            "How long running requests may go on after SIGTERM");
}

void add_engine_options(ConfigTable& table, WorkerConfig& c) {
  table.add_path("model", &c.model, "Model file (GGUF)");
  table.add("threads", &c.threads, IntRange{0, 1024}, "Kernel threads; 0: the cores it may use");
  table.add("cpus", &c.cpus, "Processors to run on, e.g. 0-3,6: a kernel thread each; empty: any");
  table.add("kernels", &c.kernels, "Kernel set: cpu (the fastest for the model), or one by name");
  table.add(
      "cache_tokens", &c.cache_tokens, IntRange{0, 1'000'000'000},
      "Positions that the cache holds; 0: twice the context, cut to what a quarter of the memory "
      "limit holds");
  table.add_enum("cache_dtype", &c.cache_dtype, tensor::cache_dtypes(),
                 "Element type of cached keys and values");
  table.add("block_units", &c.block_units, IntRange{1, 64}, "Units of 16 positions in a block");
  table.add("context_length", &c.context_length, IntRange{0, 10'000'000},
            "Longest sequence; 0: the model's own");
  table.add("token_budget", &c.token_budget, IntRange{1, 1'000'000}, "Most rows of a step");
  table.add("chunk_rows", &c.chunk_rows, IntRange{1, 1'000'000},
            "Most rows of one prompt in a step");
  table.add("sequential_prefill", &c.sequential_prefill,
            "Compute prompts one token at a time (a check: slow, the same bits)");
  table.add("backlog_tokens", &c.backlog_tokens, IntRange{1, 1'000'000'000},
            "Prompt tokens that may wait; above, requests are refused");
  table.add("headroom_tokens", &c.headroom_tokens, IntRange{1, 1'000'000},
            "Positions that a grant covers beyond the prompt");
  table.add("prefill_suffix_tokens", &c.prefill_suffix_tokens, IntRange{0, 1'000'000'000},
            "Decode nodes compute a prompt with at most so many tokens not cached; 0: none");
  table.add(
      "step_budget", &c.step_budget, DurationRange{milliseconds(0), seconds(3600)},
      "Longest step with prompts beside streams, planned for two thirds of it, or a quarter more "
      "than the streams alone take; 0: no limit");
  table.add("prefix_cache", &c.prefix_cache,
            "Keep the cache of ended requests for those that begin alike, until room is needed");
  table.add("poison_freed", &c.poison_freed, "Fill freed cache blocks with a pattern (tests)");
}

}  // namespace

void add_options(ConfigTable& table, WorkerConfig& c) {
  process::add_server_options(table, c);
  add_network_options(table, c);
  add_engine_options(table, c);
  table.check([&c]() -> Result<void> {
    if (c.model.empty()) return Error(Reason::bad_config, "model: a model file is needed");
    return ok();
  });
  table.check([&c]() -> Result<void> {
    if (c.transports.empty()) return Error(Reason::bad_config, "transports: one is needed");
    return ok();
  });
  table.check([&c]() -> Result<void> {
    BATON_ASSIGN(const ProcessorPlan plan, plan_processors(c.cpus, c.threads));
    static_cast<void>(plan);
    return ok();
  });
  process::check_address(table, "control_listen", c.control_listen, c);
  process::check_address(table, "data_listen", c.data_listen, c);
}

}  // namespace baton::worker
