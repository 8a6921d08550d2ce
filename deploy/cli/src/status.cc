#include "status.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include <boost/json.hpp>
#include <fmt/format.h>

#include "api.h"
#include "exit_code.h"
#include "facts.h"
#include "report.h"

namespace baton::cli {
namespace json = boost::json;

namespace {

constexpr std::size_t columns = 9;
constexpr std::size_t fingerprint_digits = 16;
using Row = std::array<std::string, columns>;

std::string state_of(const json::object& worker) {
  if (!flag_at(worker, "up")) return "lost";
  return flag_at(worker, "draining") ? "draining" : "up";
}

Row row_of(const json::object& worker) {
  const std::int64_t tokens = integer_at(worker, "cache_tokens");
  const std::int64_t memory = integer_at(worker, "memory_bytes");
  return {std::string(text_at(worker, "role")),
          std::string(text_at(worker, "node")),
          state_of(worker),
          std::to_string(integer_at(worker, "running")),
          std::to_string(integer_at(worker, "queued")),
          fmt::format("{} of {} free", integer_at(worker, "free_tokens"), tokens),
          memory > 0 ? bytes_text(memory) : "-",
          std::string(text_at(worker, "fingerprint").substr(0, fingerprint_digits)),
          std::string(text_at(worker, "admin"))};
}

/// What the workers themselves say beyond what the router knows; those that do not answer are left
/// out.
std::vector<json::object> ask_workers(json::array& workers) {
  std::vector<json::object> answers;
  for (json::value& each : workers) {
    json::object* worker = each.if_object();
    if (worker == nullptr) continue;
    const Result<Endpoint> admin = parse_url(text_at(*worker, "admin"));
    if (!admin) continue;
    const Result<json::object> status = get_json(*admin, "/status");
    if (!status) continue;
    (*worker)["memory_bytes"] = integer_at(*status, "memory_bytes");
    answers.push_back(*status);
  }
  return answers;
}

/// Which prefill node sends to which decode node over what.
std::string pair_lines(const std::vector<json::object>& answers) {
  std::string out;
  for (const json::object& worker : answers) {
    if (text_at(worker, "role") != "prefill") continue;
    for (const Pair& pair : pairs_of(worker)) {
      out += fmt::format("{} -> {} over {}: {}\n", text_at(worker, "node"), pair.node,
                         pair.transport, pair.why);
    }
  }
  return out;
}

}  // namespace

std::string worker_table(const json::array& workers) {
  std::vector<Row> rows = {{"ROLE", "NODE", "STATE", "RUNNING", "QUEUED", "CACHE TOKENS", "PSS",
                            "FINGERPRINT", "ADMIN"}};
  for (const json::value& worker : workers) {
    if (worker.is_object()) rows.push_back(row_of(worker.as_object()));
  }
  std::array<std::size_t, columns> widths{};
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < columns; ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string out;
  for (const Row& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < columns; ++i) line += fmt::format("{:<{}}  ", row[i], widths[i]);
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

int status(const StatusOptions& options) {
  const Result<Endpoint> admin = parse_url(options.url);
  if (!admin) return report(admin.error());
  const Result<net::HttpResponse> ready = get(*admin, "/readyz");
  if (!ready) return report(ready.error());
  const Result<json::object> answer = get_json(*admin, "/workers");
  if (!answer) return report(answer.error());
  const json::value* list = answer->if_contains("workers");
  json::array workers = list != nullptr && list->is_array() ? list->as_array() : json::array();
  std::string readiness = ready->body;
  readiness.erase(readiness.find_last_not_of('\n') + 1);
  const std::vector<json::object> answers = ask_workers(workers);
  if (options.json) {
    const json::object out{
        {"ready", ready->status == 200}, {"state", readiness}, {"workers", workers}};
    std::printf("%s\n", json::serialize(out).c_str());
    return 0;
  }
  std::printf("router %s: %s\n\n%s", admin->to_string().c_str(), readiness.c_str(),
              worker_table(workers).c_str());
  const std::string pairs = pair_lines(answers);
  if (!pairs.empty()) std::printf("\n%s", pairs.c_str());
  return 0;
}

}  // namespace baton::cli
