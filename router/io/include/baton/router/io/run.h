// A router process. The whole public side of the role.
#pragma once

namespace baton::router {

/// The main function: options, logging, serving until SIGTERM or SIGINT has been drained. Returns
/// the exit code: 0, 78 for a configuration that cannot be used, 70 for anything else.
int router_main(int argc, const char* const* argv);

}  // namespace baton::router
