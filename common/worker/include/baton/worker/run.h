// A worker process: loads the model, listens, runs the engine. The role's own decisions are its
// core.
#pragma once

#include <functional>
#include <memory>

#include "baton/protocol/messages.h"
#include "baton/worker/config.h"
#include "baton/worker/core/node_core.h"

namespace baton::worker {

using CoreFactory =
    std::function<std::unique_ptr<NodeCore>(const NodeLimits& limits, kvcache::PoolConfig pools)>;

/// The main function of a worker: runs until SIGTERM or SIGINT has been drained. Returns the exit
/// code: 0, 78 for a configuration or model file that cannot be used, 70 for anything else.
int worker_main(protocol::Role role, int argc, const char* const* argv,
                const CoreFactory& make_core);

}  // namespace baton::worker
