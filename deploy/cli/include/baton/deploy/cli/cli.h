// The `baton` command for people: starts a cluster on this machine, talks to one, or computes
// without any.
#pragma once

namespace baton::cli {

/// The whole main function. Returns the exit code: 0, 64 for wrong usage, 65 for a request that was
/// refused as wrong, 69 for a cluster that cannot be reached or cannot serve, 70 for a failure of
/// Baton itself, 78 for a configuration or model file that cannot be used, 130 after Ctrl-C; `up`
/// passes on the code of a node that failed.
int cli_main(int argc, const char* const* argv);

}  // namespace baton::cli
