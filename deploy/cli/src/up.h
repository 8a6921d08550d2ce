// `baton up`: a cluster on this machine, for as long as the command runs.
#pragma once

#include "options.h"

namespace baton::cli {

/// Returns the exit code: 0 after Ctrl-C or, with --once, after the answer; that of a node that
/// failed; see cli.h for the rest. No process of it is left behind.
int up(const UpOptions& options);

}  // namespace baton::cli
