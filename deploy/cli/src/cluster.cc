#include "cluster.h"

#include <algorithm>
#include <charconv>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <boost/json.hpp>
#include <fmt/format.h>

#include "api.h"
#include "exit_code.h"
#include "facts.h"

namespace baton::cli {
namespace json = boost::json;

using protocol::Role;

namespace {

constexpr Duration poll_time = std::chrono::milliseconds(20);
constexpr Duration router_grace = std::chrono::seconds(4);
constexpr Duration worker_grace = std::chrono::seconds(4);
constexpr std::string_view drain_flag = "--drain-grace=3s";
constexpr std::size_t log_lines = 12;

const char* program_of(Role role) {
  if (role == Role::router) return "baton-router";
  return role == Role::prefill ? "baton-prefill" : "baton-decode";
}

std::filesystem::path own_path() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error);
}

/// The nodes' programs lie beside this one.
std::string program_path(Role role) { return own_path().parent_path() / program_of(role); }

/// The number in "loaded 37 %".
double load_share(std::string_view body) {
  const std::size_t at = body.find_first_of("0123456789");
  if (at == std::string_view::npos) return 0;
  int percent = 0;
  std::from_chars(body.data() + at, body.data() + body.size(), percent);
  return percent / 100.0;
}

std::string url_of(const Endpoint& endpoint) { return "http://" + endpoint.to_string(); }

}  // namespace

Cluster::Cluster(const UpOptions& options, RunFolder folder, Signals& signals)
    : options_(options), folder_(std::move(folder)), signals_(signals) {}

// ---- starting
// ------------------------------------------------------------------------------------

Result<void> Cluster::start(const std::function<void(double)>& progress) {
  deadline_ = monotonic_now() + std::chrono::duration_cast<Duration>(
                                    std::chrono::duration<double>(options_.ready_within_s));
  BATON_TRY(launch_workers());
  BATON_TRY(await_announcements());
  BATON_TRY(launch_router());
  BATON_TRY(await_announcements());
  BATON_TRY(await_load(progress));
  const Endpoint admin = nodes_.back().admin;
  BATON_TRY(await("the router is not ready", [&] {
    const Result<net::HttpResponse> ready = get(admin, "/readyz");
    return ready && ready->status == 200;
  }));
  return await_pairs();
}

Result<void> Cluster::launch(Role role, const std::string& name,
                             const std::vector<std::string>& arguments) {
  std::vector<std::string> all = {"--node=" + name, "--announce=" + folder_.announcement(name),
                                  std::string(drain_flag)};
  all.insert(all.end(), arguments.begin(), arguments.end());
  BATON_ASSIGN(Child child, Child::start(name, program_path(role), all, folder_.log(name)));
  nodes_.push_back({role, std::move(child), {}, {}, {}});
  return ok();
}

Result<void> Cluster::share_processors() {
  // Whoever gives each node a number of threads and no processors wants no parts.
  const bool told = std::any_of(options_.node_flags.begin(), options_.node_flags.end(),
                                [](const auto& flag) { return flag.first == "--threads"; });
  if (told && options_.cpus.empty()) return ok();
  BATON_ASSIGN(shares_, worker::share_processors(options_.cpus,
                                                 options_.prefill_nodes + options_.decode_nodes));
  return ok();
}

std::string Cluster::processors_text() const {
  if (shares_.empty()) return "any, with the number of threads that was given";
  std::string out;
  for (const Node& node : nodes_) {
    if (node.role == Role::router) continue;
    out += fmt::format("{}{} on {}", out.empty() ? "" : ", ", node.child.name(), node.processors);
  }
  return out + ": a kernel thread a core, within the quota of the control group";
}

Result<void> Cluster::launch_workers() {
  BATON_TRY(share_processors());
  const auto share = [&](int index) {
    return shares_.empty() ? worker::ProcessorList() : shares_[static_cast<std::size_t>(index)];
  };
  for (int i = 0; i < options_.decode_nodes; ++i) {
    BATON_TRY(launch_worker(Role::decode, i + 1, share(options_.prefill_nodes + i)));
  }
  for (int i = 0; i < options_.prefill_nodes; ++i) {
    BATON_TRY(launch_worker(Role::prefill, i + 1, share(i)));
  }
  return ok();
}

Result<void> Cluster::launch_worker(Role role, int number, const worker::ProcessorList& share) {
  std::vector<std::string> arguments = {"--model=" + options_.model};
  for (const auto& [flag, value] : options_.node_flags) {
    arguments.push_back(fmt::format("{}={}", flag, value));
  }
  const std::string processors = worker::processors_text(share);
  if (!share.empty()) arguments.push_back("--cpus=" + processors);
  const char* role_name = role == Role::prefill ? "prefill" : "decode";
  BATON_TRY(launch(role, fmt::format("{}-{}", role_name, number), arguments));
  nodes_.back().processors = processors;
  return ok();
}

Result<void> Cluster::launch_router() {
  std::vector<std::string> arguments = {
      fmt::format("--listen=127.0.0.1:{}", options_.port),
      fmt::format("--admin-listen=127.0.0.1:{}", options_.admin_port)};
  for (const Node& node : nodes_) {
    const char* flag = node.role == Role::prefill ? "--prefill=" : "--decode=";
    arguments.push_back(flag + node.control.to_string());
  }
  return launch(Role::router, "router", arguments);
}

Result<void> Cluster::await(const std::string& what, const std::function<bool()>& done) {
  while (!done()) {
    BATON_TRY(check());
    if (signals_.stops() > 0) return Error(Reason::cancelled, "stopped before it was ready");
    if (monotonic_now() >= deadline_) {
      std::string message = fmt::format("{} after {} s", what, options_.ready_within_s);
      for (const Node& node : nodes_) {
        message += fmt::format("\n{}:\n{}", node.child.name(), tail(node.child.log(), 3, "  "));
      }
      return Error(Reason::deadline_exceeded, message);
    }
    signals_.wait(poll_time);
  }
  return ok();
}

bool Cluster::read_announcement(Node& node) {
  if (node.admin.port != 0) return true;
  std::ifstream file(folder_.announcement(node.child.name()));
  std::ostringstream text;
  if (!file || !(text << file.rdbuf())) return false;
  boost::system::error_code failed;
  const json::value value = json::parse(text.str(), failed);
  if (failed || !value.is_object()) return false;
  const auto endpoint_at = [&](std::string_view key) {
    const Result<Endpoint> endpoint = parse_endpoint(text_at(value.as_object(), key));
    return endpoint ? *endpoint : Endpoint();
  };
  node.control = endpoint_at("control");
  node.admin = endpoint_at("admin");
  if (node.role == Role::router) api_ = endpoint_at("api");
  return node.admin.port != 0;
}

Result<void> Cluster::await_announcements() {
  for (Node& node : nodes_) {
    BATON_TRY(
        await(node.child.name() + " does not listen", [&] { return read_announcement(node); }));
  }
  return ok();
}

Result<void> Cluster::await_load(const std::function<void(double)>& progress) {
  const auto all_loaded = [&] {
    double sum = 0;
    int loaded = 0;
    int workers = 0;
    for (const Node& node : nodes_) {
      if (node.role == Role::router) continue;
      ++workers;
      const Result<net::HttpResponse> answer = get(node.admin, "/startupz");
      if (!answer) continue;
      sum += load_share(answer->body);
      loaded += answer->status == 200;
    }
    progress(sum / workers);
    return loaded == workers;
  };
  return await("the model is not loaded", all_loaded);
}

Result<void> Cluster::await_pairs() {
  const auto decode_nodes = static_cast<std::size_t>(options_.decode_nodes);
  for (const Node& node : nodes_) {
    if (node.role != Role::prefill) continue;
    BATON_TRY(await(node.child.name() + " is not connected to every decode node", [&] {
      const Result<json::object> status = get_json(node.admin, "/status");
      return status && pairs_of(*status).size() >= decode_nodes;
    }));
  }
  return ok();
}

// ---- looking
// -------------------------------------------------------------------------------------

Result<ClusterFacts> Cluster::facts() {
  const Endpoint& admin = nodes_.back().admin;
  ClusterFacts out;
  out.command = own_path();
  out.api_url = url_of(api_);
  out.admin_url = url_of(admin);
  out.processors = processors_text();
  BATON_ASSIGN(const json::object answer, get_json(admin, "/workers"));
  out.workers = objects_at(answer, "workers");
  for (const Node& node : nodes_) {
    if (node.role != Role::prefill) continue;
    BATON_ASSIGN(const json::object status, get_json(node.admin, "/status"));
    for (const Pair& pair : pairs_of(status)) {
      out.links.push_back({node.child.name(), pair.node, pair.transport, pair.why});
    }
  }
  return out;
}

Result<void> Cluster::check() {
  for (Node& node : nodes_) {
    if (node.child.running()) continue;
    const int code = node.child.code().value_or(0);
    failed_code_ = code == 0 ? exit_software : code;
    return Error(Reason::worker_lost,
                 fmt::format("{} {}; the end of its log:\n{}", node.child.name(),
                             node.child.ending(), tail(node.child.log(), log_lines, "  ")));
  }
  return ok();
}

// ---- stopping
// ------------------------------------------------------------------------------------

void Cluster::end(const std::function<bool(const Node&)>& chosen, Duration grace) {
  for (Node& node : nodes_) {
    if (chosen(node)) node.child.signal(SIGTERM);
  }
  const Instant deadline = monotonic_now() + grace;
  const int stops = signals_.stops();
  for (Node& node : nodes_) {
    if (!chosen(node)) continue;
    while (node.child.running() && monotonic_now() < deadline && signals_.stops() == stops) {
      signals_.wait(poll_time);
    }
    node.child.signal(SIGKILL);
  }
}

void Cluster::stop() {
  end([](const Node& node) { return node.role == Role::router; }, router_grace);
  end([](const Node& node) { return node.role != Role::router; }, worker_grace);
  nodes_.clear();
}

}  // namespace baton::cli
