// What both kinds of worker are configured with.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "baton/base/config.h"
#include "baton/base/endpoint.h"
#include "baton/base/time.h"
#include "baton/process/program.h"
#include "baton/tensor/dtype.h"

namespace baton::worker {

struct WorkerConfig : process::ServerConfig {
  std::string model;        ///< GGUF file
  Endpoint control_listen;  ///< port 0: chosen by the system
  std::string advertise;    ///< host that peers connect to; empty: that of control_listen
  int threads = 0;          ///< kernel threads; 0: one a core, see plan_processors()
  std::string cpus;         ///< processors to run on, "0-3,6"; empty: where the system likes
  std::string kernels = "cpu";
  std::int64_t cache_tokens = 0;  ///< 0: twice the context, cut to a quarter of the memory limit
  tensor::CacheDtype cache_dtype = tensor::CacheDtype::bf16;
  int block_units = 4;
  std::int64_t context_length = 0;  ///< 0: the model's own
  std::int64_t token_budget = 512;  ///< most rows of a step
  std::int64_t chunk_rows = 256;    ///< most rows of one prompt in a step
  bool sequential_prefill = false;  ///< one row at a time: the reference for the parallel forward
  std::vector<std::string> transports = {"shm", "ucx"};
  Endpoint data_listen;  ///< of ucx
  Duration lease = std::chrono::seconds(5);
  Duration drain_grace = std::chrono::seconds(25);
  std::int64_t backlog_tokens = 1'000'000;
  std::int64_t headroom_tokens = 64;
  bool prefix_cache = true;
  std::int64_t prefill_suffix_tokens = 0;  ///< decode: longest part of a prompt computed here
  Duration step_budget = std::chrono::milliseconds(100);  ///< of prompts beside streams; 0: none
  bool poison_freed = false;                              ///< fills freed blocks (tests)
};

/// The options of `config`, bound to a table; `role` names what help texts speak of.
void add_options(ConfigTable& table, WorkerConfig& config);

}  // namespace baton::worker
