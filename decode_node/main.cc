// baton-decode: continues handed-over sequences, one token a step.
#include <memory>

#include "baton/base/ids.h"
#include "baton/decode_node/core/decode_core.h"
#include "baton/worker/run.h"

int main(int argc, char** argv) {
  return baton::worker::worker_main(
      baton::protocol::Role::decode, argc, argv,
      [](const baton::worker::NodeLimits& limits, baton::kvcache::PoolConfig pools) {
        return std::make_unique<baton::decode_node::DecodeCore>(limits, std::move(pools),
                                                                baton::random_seed());
      });
}
