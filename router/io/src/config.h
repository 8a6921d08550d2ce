// The router's options.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "baton/base/config.h"
#include "baton/base/endpoint.h"
#include "baton/process/program.h"
#include "baton/router/core/handoff_table.h"

namespace baton::router {

struct RouterConfig : process::ServerConfig {
  Endpoint listen{"127.0.0.1", 8000};
  std::vector<Endpoint> prefill;
  std::vector<Endpoint> decode;
  std::string model_name;  ///< empty: the workers'
  Duration request_deadline = std::chrono::minutes(10);
  Duration drain_delay{};  ///< from SIGTERM to the first refusal, for load balancers to notice
  Duration drain_grace = std::chrono::seconds(25);
  TableLimits table;
  std::string prefix_secret_file;  ///< empty: what routers without one share
  std::int64_t max_requests = 4096;
  std::int64_t max_queue = 256;
  std::int64_t max_connections = 4096;
  std::int64_t max_connections_per_address = 64;
};

/// The secret of the cluster's prefix chains. Reason::bad_config when its file is no secret.
Result<std::string> prefix_secret(const RouterConfig& config);

void add_options(ConfigTable& table, RouterConfig& config);

}  // namespace baton::router
