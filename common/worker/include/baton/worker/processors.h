// Which processors a process computes on and with how many kernel threads.
//
// A core is what hyperthreads share: its processors count as one, since two kernel threads on one
// core would share its vector units. Where the system shows no topology each processor counts as a
// core.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "baton/base/result.h"
#include "baton/worker/machine.h"

namespace baton::worker {

/// Processors by number, ascending, each once.
using ProcessorList = std::vector<int>;

/// "0-3,6"; Reason::bad_config for anything else, the empty list too.
Result<ProcessorList> parse_processors(std::string_view text);
std::string processors_text(std::span<const int> processors);

/// Where the kernel shows processors; other places in tests.
struct ProcessorFiles {
  ControlGroupFiles groups;
  std::string topology = "/sys/devices/system/cpu";
  std::optional<ProcessorList> affinity;  ///< nothing: that of the calling thread
};

/// What was decided and why, for the log.
struct ProcessorPlan {
  int threads = 1;
  ProcessorList pinned;  ///< one a kernel thread, in their order; empty: the system places them
  std::string why;
};

/// `list` is the option `cpus` (empty: not given), `threads` the option of that name (0: not
/// given). With a list kernel threads are pinned, first one a core, then their siblings. Without
/// `threads` there is one a core, within the quota of the control group. Reason::bad_config: a list
/// that is none, that names what this process may not use, or that is shorter than `threads`.
Result<ProcessorPlan> plan_processors(const std::string& list, int threads,
                                      const ProcessorFiles& files = {});

/// `list`, or what this process may use, in equal parts for processes of one machine: whole cores,
/// as many as the quota of the control group lets run; the first parts get what is left over. With
/// fewer cores than processes some get the same.
Result<std::vector<ProcessorList>> share_processors(const std::string& list, int processes,
                                                    const ProcessorFiles& files = {});

/// Keeps the calling thread, and those that it starts, on `list`; empty: anywhere.
Result<void> confine_to(const std::string& list);

}  // namespace baton::worker
