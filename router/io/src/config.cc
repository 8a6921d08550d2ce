#include "config.h"

#include <fstream>
#include <iterator>

namespace baton::router {

using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

void add_waits(ConfigTable& table, RouterConfig& c) {
  const auto add = [&](std::string name, Duration* value, std::string help) {
    table.add(std::move(name), value, DurationRange{milliseconds(1), std::chrono::hours(24)},
              std::move(help));
  };
  add("request_deadline", &c.request_deadline, "Longest life of a request");
  table.add("drain_delay", &c.drain_delay, DurationRange{milliseconds(0), std::chrono::hours(1)},
            "How long new requests are still taken after SIGTERM");
  add("drain_grace", &c.drain_grace, "How long open requests may go on after SIGTERM");
  add("queue_wait", &c.table.queue_wait, "How long a request waits for workers");
  add("grant_wait", &c.table.grant_wait, "Deadline of a decode node's answer to a reservation");
  add("space_wait", &c.table.space_wait, "How long a request waits for room on decode nodes");
  add("handoff_wait", &c.table.handoff_wait, "Deadline of a handoff after the first token");
  add("token_wait", &c.table.token_wait, "Longest gap between two tokens of a stream");
  add("facts_wait", &c.table.facts_wait,
      "How long an answer's end waits for its handoff's figures");
  add("reconnect_wait", &c.table.reconnect_wait, "How long a lost worker is waited for");
  table.add("lease", &c.table.lease, DurationRange{seconds(1), seconds(600)},
            "How long workers hold what a silent router owns");
}

}  // namespace

Result<std::string> prefix_secret(const RouterConfig& config) {
  if (config.prefix_secret_file.empty()) return std::string();
  std::ifstream file(config.prefix_secret_file, std::ios::binary);
  std::string secret(std::istreambuf_iterator<char>(file), {});
  while (!secret.empty() && (secret.back() == '\n' || secret.back() == '\r')) secret.pop_back();
  constexpr std::size_t shortest = 16;
  constexpr std::size_t longest = 4096;
  if (!file || secret.size() < shortest || secret.size() > longest) {
    return Error(Reason::bad_config, "prefix_secret_file: " + config.prefix_secret_file +
                                         " must be a file of 16 to 4096 bytes");
  }
  return secret;
}

void add_options(ConfigTable& table, RouterConfig& c) {
  process::add_server_options(table, c);
  table.add("listen", &c.listen, "Address of the API; port 0: any free");
  table.add("prefill", &c.prefill, "Control addresses of prefill nodes (a name may be several)");
  table.add("decode", &c.decode, "Control addresses of decode nodes (a name may be several)");
  table.add("model_name", &c.model_name, "Name of the model in the API; empty: the workers'");
  table.add("requests", &c.max_requests, IntRange{1, 1'000'000}, "Most requests at a time");
  table.add("queue", &c.max_queue, IntRange{1, 1'000'000}, "Most requests that wait for workers");
  table.add("attempts_without_token", &c.table.attempts_without_token, IntRange{0, 1000},
            "New attempts in a row that may bring no token before a request fails");
  table.add("connections", &c.max_connections, IntRange{1, 1'000'000}, "Most HTTP connections");
  table.add("connections_per_address", &c.max_connections_per_address, IntRange{0, 1'000'000},
            "Most HTTP connections of one client address; 0: no limit");
  table.add_path("prefix_secret_file", &c.prefix_secret_file,
                 "File with the secret that keys cached prefixes; the same for all routers");
  add_waits(table, c);
  table.check([&c]() -> Result<void> {
    if (c.decode.empty()) return Error(Reason::bad_config, "decode: at least one is needed");
    return ok();
  });
  process::check_address(table, "listen", c.listen, c);
}

}  // namespace baton::router
