// baton-prefill: computes prompts and hands their caches over.
#include <memory>

#include "baton/prefill_node/core/prefill_core.h"
#include "baton/worker/run.h"

int main(int argc, char** argv) {
  return baton::worker::worker_main(
      baton::protocol::Role::prefill, argc, argv,
      [](const baton::worker::NodeLimits& limits, baton::kvcache::PoolConfig pools) {
        return std::make_unique<baton::prefill_node::PrefillCore>(limits, std::move(pools));
      });
}
