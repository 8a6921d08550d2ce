#include "baton/worker/processors.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <utility>

#include <fmt/format.h>
#include <sched.h>

namespace baton::worker {
namespace {

// The widest affinity mask that cpu_set_t holds.
constexpr int most_processors = CPU_SETSIZE;

Error bad_list(std::string_view text) {
  return {Reason::bad_config,
          fmt::format("cpus: \"{}\" is no list of processors (0 to {}); write it like 0-3,6", text,
                      most_processors - 1)};
}

/// A whole number of `text` below most_processors, or -1.
int number_of(std::string_view text) {
  int value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole && value >= 0 && value < most_processors ? value : -1;
}

ProcessorList common_of(const ProcessorList& a, const ProcessorList& b) {
  ProcessorList out;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(out));
  return out;
}

ProcessorList affinity() {
  cpu_set_t set;
  CPU_ZERO(&set);
  ProcessorList out;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return {0};
  for (int i = 0; i < most_processors; ++i) {
    if (CPU_ISSET(static_cast<std::size_t>(i), &set)) out.push_back(i);
  }
  return out;
}

/// By affinity and by the control groups. The kernel keeps the mask within the groups; a list that
/// has nothing in common with it belongs to another process's view and is left out.
ProcessorList allowed_processors(const ProcessorFiles& files) {
  ProcessorList allowed = files.affinity ? *files.affinity : affinity();
  for (const std::string& text : group_processor_lists(files.groups)) {
    const Result<ProcessorList> group = parse_processors(text);
    if (!group) continue;
    ProcessorList both = common_of(allowed, *group);
    if (!both.empty()) allowed = std::move(both);
  }
  return allowed;
}

/// `list` as processors that this process may use; what it may use when it is empty.
Result<ProcessorList> chosen_processors(const std::string& list, const ProcessorFiles& files) {
  ProcessorList allowed = allowed_processors(files);
  if (list.empty()) return allowed;
  BATON_ASSIGN(ProcessorList chosen, parse_processors(list));
  if (common_of(chosen, allowed) == chosen) return chosen;
  return Error(Reason::bad_config, fmt::format("cpus: {} is not within {}, what this process may "
                                               "use by affinity and control group",
                                               list, processors_text(allowed)));
}

struct Cores {
  std::vector<ProcessorList> siblings;  ///< of each core, ascending by the first
  bool known = true;                    ///< the system shows the topology
};

/// The processors of `processor`'s core, itself among them.
std::optional<ProcessorList> siblings_of(int processor, const ProcessorFiles& files) {
  // The second is the older name of the first.
  for (const char* name : {"core_cpus_list", "thread_siblings_list"}) {
    std::ifstream file(fmt::format("{}/cpu{}/topology/{}", files.topology, processor, name));
    std::string text;
    if (!(file >> text)) continue;
    Result<ProcessorList> list = parse_processors(text);
    if (list && std::binary_search(list->begin(), list->end(), processor)) return *std::move(list);
  }
  return std::nullopt;
}

Cores cores_of(const ProcessorList& processors, const ProcessorFiles& files) {
  Cores cores;
  ProcessorList left = processors;
  while (!left.empty()) {
    const std::optional<ProcessorList> siblings = siblings_of(left.front(), files);
    cores.known = cores.known && siblings;
    ProcessorList core = common_of(left, siblings.value_or(ProcessorList{left.front()}));
    ProcessorList rest;
    std::set_difference(left.begin(), left.end(), core.begin(), core.end(),
                        std::back_inserter(rest));
    cores.siblings.push_back(std::move(core));
    left = std::move(rest);
  }
  return cores;
}

/// How many kernel threads pay: one a core, and no more than the quota lets run at a time.
int useful_threads(const Cores& cores, const std::optional<double>& quota) {
  const auto count = static_cast<double>(cores.siblings.size());
  return std::max(1, static_cast<int>(std::min(count, std::ceil(quota.value_or(count)))));
}

/// The first processor of each core, then the second of each, and so on.
ProcessorList in_order_of_use(const Cores& cores) {
  ProcessorList out;
  for (std::size_t sibling = 0, added = 1; added > 0; ++sibling) {
    added = 0;
    for (const ProcessorList& core : cores.siblings) {
      if (sibling >= core.size()) continue;
      out.push_back(core[sibling]);
      ++added;
    }
  }
  return out;
}

/// The `i`-th of `parts` of [0, count), the first ones larger; parts of one when there are too few.
std::pair<int, int> part_of(int count, int i, int parts) {
  if (count < parts) return {i % count, i % count + 1};
  const auto begin = [&](int part) { return (part * count + parts - 1) / parts; };
  return {begin(i), begin(i + 1)};
}

std::string reasons(const ProcessorList& chosen, const Cores& cores,
                    const std::optional<double>& quota, bool told_threads) {
  std::string out = fmt::format("{} core{} in processors {}", cores.siblings.size(),
                                cores.siblings.size() == 1 ? "" : "s", processors_text(chosen));
  if (!cores.known) out += ", no topology shown: each processor counts as a core";
  if (quota) out += fmt::format(", the control group's quota is {:.2f}", *quota);
  if (told_threads) out += ", the number of threads was given";
  return out;
}

}  // namespace

Result<ProcessorList> parse_processors(std::string_view text) {
  ProcessorList out;
  for (std::string_view rest = text;;) {
    const std::size_t comma = rest.find(',');
    const std::string_view part = rest.substr(0, comma);
    const std::size_t dash = part.find('-');
    const int first = number_of(part.substr(0, dash));
    const int last = dash == std::string_view::npos ? first : number_of(part.substr(dash + 1));
    if (first < 0 || last < first) return bad_list(text);
    for (int i = first; i <= last; ++i) out.push_back(i);
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

std::string processors_text(std::span<const int> processors) {
  std::string out;
  for (std::size_t i = 0; i < processors.size();) {
    std::size_t end = i + 1;
    while (end < processors.size() && processors[end] == processors[end - 1] + 1) ++end;
    if (!out.empty()) out += ',';
    out += std::to_string(processors[i]);
    if (end - i > 1) out += '-' + std::to_string(processors[end - 1]);
    i = end;
  }
  return out;
}

Result<ProcessorPlan> plan_processors(const std::string& list, int threads,
                                      const ProcessorFiles& files) {
  BATON_ASSIGN(const ProcessorList chosen, chosen_processors(list, files));
  const Cores cores = cores_of(chosen, files);
  const std::optional<double> quota = quota_processors(files.groups);
  ProcessorPlan plan;
  plan.threads = threads > 0 ? threads : useful_threads(cores, quota);
  plan.why = reasons(chosen, cores, quota, threads > 0);
  if (list.empty()) return plan;
  plan.pinned = in_order_of_use(cores);
  if (plan.threads > std::ssize(plan.pinned)) {
    return Error(Reason::bad_config,
                 fmt::format("threads: {} kernel threads do not fit on processors {}, one each",
                             plan.threads, list));
  }
  plan.pinned.resize(static_cast<std::size_t>(plan.threads));
  return plan;
}

Result<std::vector<ProcessorList>> share_processors(const std::string& list, int processes,
                                                    const ProcessorFiles& files) {
  BATON_ASSIGN(const ProcessorList chosen, chosen_processors(list, files));
  const Cores cores = cores_of(chosen, files);
  const int usable = useful_threads(cores, quota_processors(files.groups));
  std::vector<ProcessorList> shares;
  for (int i = 0; i < processes; ++i) {
    const auto [begin, end] = part_of(usable, i, processes);
    ProcessorList& share = shares.emplace_back();
    for (int core = begin; core < end; ++core) {
      const ProcessorList& siblings = cores.siblings[static_cast<std::size_t>(core)];
      share.insert(share.end(), siblings.begin(), siblings.end());
    }
    std::sort(share.begin(), share.end());
  }
  return shares;
}

Result<void> confine_to(const std::string& list) {
  if (list.empty()) return ok();
  BATON_ASSIGN(const ProcessorList processors, parse_processors(list));
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int processor : processors) CPU_SET(static_cast<std::size_t>(processor), &set);
  if (sched_setaffinity(0, sizeof set, &set) == 0) return ok();
  return Error(Reason::bad_config,
               fmt::format("cpus: cannot run on {}: {}", list, std::strerror(errno)));
}

}  // namespace baton::worker
