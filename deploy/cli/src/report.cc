#include "report.h"

#include <array>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "facts.h"

namespace baton::cli {
namespace json = boost::json;

namespace {

std::string entry(std::string_view title, const std::string& text) {
  return fmt::format("  {:<11}{}\n", title, text);
}

std::string count_text(std::size_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::size_t count_of(const ClusterFacts& cluster, std::string_view role) {
  std::size_t count = 0;
  for (const json::object& worker : cluster.workers) count += text_at(worker, "role") == role;
  return count;
}

/// One line a transport and reason; with several links on it, their number.
std::string transport_lines(const std::vector<Link>& links) {
  std::map<std::pair<std::string, std::string>, std::vector<const Link*>> by_choice;
  for (const Link& link : links) by_choice[{link.transport, link.why}].push_back(&link);
  std::string out;
  for (const auto& [choice, members] : by_choice) {
    const std::string who = members.size() == 1
                                ? members.front()->from + " to " + members.front()->to
                                : count_text(members.size(), "link");
    out += entry("transport", fmt::format("{} ({}): {}", choice.first, who, choice.second));
  }
  return out;
}

std::string curl_line(const std::string& api_url) {
  return fmt::format(
      "curl {}/v1/chat/completions -H 'Content-Type: application/json' -d "
      "'{{\"messages\": [{{\"role\": \"user\", \"content\": \"Say hello.\"}}], "
      "\"max_tokens\": 32}}'",
      api_url);
}

}  // namespace

std::string banner(const ClusterFacts& cluster) {
  std::string out = fmt::format("\nBaton is up: 1 router, {}, {}\n",
                                count_text(count_of(cluster, "prefill"), "prefill node"),
                                count_text(count_of(cluster, "decode"), "decode node"));
  if (!cluster.workers.empty()) {
    const json::object& first = cluster.workers.front();
    out += entry("model", fmt::format("{}, context {} tokens", text_at(first, "model"),
                                      integer_at(first, "context_length")));
    out += entry("numerics",
                 fmt::format("class {}, kernels {}, cache {}", text_at(first, "numerics_class"),
                             text_at(first, "kernel_set"), text_at(first, "cache_dtype")));
  }
  out += transport_lines(cluster.links);
  std::string capacity;
  std::string metrics = cluster.admin_url + "/metrics";
  for (const json::object& worker : cluster.workers) {
    capacity += fmt::format("{}{} {} tokens", capacity.empty() ? "" : ", ", text_at(worker, "node"),
                            integer_at(worker, "cache_tokens"));
    metrics += fmt::format("\n{:13}{}/metrics ({})", "", text_at(worker, "admin"),
                           text_at(worker, "node"));
  }
  out += entry("cache", capacity);
  out += entry("processors", cluster.processors);
  out += entry("API", cluster.api_url + "/v1");
  out += entry("admin", cluster.admin_url + " (/livez /readyz /startupz /metrics /workers)");
  out += entry("metrics", metrics);
  out += entry("try", curl_line(cluster.api_url));
  out += entry("", cluster.command + " chat --url " + cluster.api_url);
  out += entry("", cluster.command + " status --url " + cluster.admin_url);
  return out;
}

std::string bytes_text(std::int64_t bytes) {
  constexpr std::array units = {"bytes", "kB", "MB", "GB", "TB"};
  if (bytes < 1000) return fmt::format("{} bytes", bytes);
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 1000 && unit + 1 < units.size(); ++unit) value /= 1000;
  return fmt::format("{:.1f} {}", value, units[unit]);
}

std::string time_report(const Answer& answer) {
  const json::object& times = object_at(answer.facts, "times_ms");
  const json::object& handoff = object_at(answer.facts, "handoff");
  const json::object& decode = object_at(answer.facts, "decode");
  const std::string prefill_node(text_at(object_at(answer.facts, "prefill"), "node"));
  const std::string decode_node(text_at(decode, "node"));
  std::string out = "Where the time went (ms)\n";
  const auto part = [&](std::string_view title, std::string_view key, const std::string& note) {
    out += fmt::format("  {:<18}{:>10.2f}", title, number_at(times, key));
    out += note.empty() ? "\n" : "   " + note + "\n";
  };
  part("queue", "queue", "");
  part("prefill", "prefill",
       fmt::format("{}, P = {} prompt tokens", prefill_node, answer.prompt_tokens));
  part("handoff exposed", "handoff_exposed", "from token 0 sampled to the cache accepted");
  part("first decode step", "first_decode", decode_node);
  part("decode", "decode",
       fmt::format("{}, {} tokens in all", decode_node, answer.token_ids.size()));
  part("unaccounted", "unaccounted", "");
  part("total", "total", "");
  const std::int64_t held = integer_at(handoff, "held_units");
  if (integer_at(handoff, "units") + held == 0) {
    return out + (integer_at(decode, "prompt_rows") > 0
                      ? fmt::format("Handoff: none, {} computed the prompt\n", decode_node)
                      : "Handoff: none, the first token ended the request\n");
  }
  out += fmt::format("Handoff: {} units, {}, over {} in {:.2f} ms", integer_at(handoff, "units"),
                     bytes_text(integer_at(handoff, "bytes")), text_at(handoff, "transport"),
                     number_at(handoff, "total_ms"));
  out += held == 0 ? "\n" : fmt::format("; {} more were held already\n", held);
  out += fmt::format(
      "  first unit of layer 0 sent after {:.2f} ms, last layer of its chunk computed after "
      "{:.2f} ms\n",
      number_at(handoff, "first_unit_sent_ms"), number_at(handoff, "last_layer_computed_ms"));
  out += fmt::format("  decode node: {} prompt rows, first step {} row, cache {} -> {}\n",
                     integer_at(decode, "prompt_rows"), integer_at(decode, "first_step_rows"),
                     integer_at(decode, "cache_before"), integer_at(decode, "cache_after"));
  return out;
}

}  // namespace baton::cli
