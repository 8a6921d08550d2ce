#pragma once

#include "baton/prefill_node/core/prefill_core.h"

#include "support/worker/node_fixture.h"

namespace baton::prefill_node {

using protocol::FinishReason;
using worker::Countable;
using namespace std::chrono_literals;  // NOLINT: durations in every test

class PrefillFixture : public worker::NodeFixture {
 protected:
  worker::NodeCore& core() override { return core_; }
  void ask_for(const protocol::AttemptKey& k) override { prefill(k); }

  void prefill(const protocol::AttemptKey& k, std::size_t prompt = 20, bool needs_target = true) {
    say(protocol::Prefill{k, work(prompt, needs_target ? 5 : 1), 5000, needs_target});
  }
  void target(const protocol::AttemptKey& k) {
    say(protocol::Target{k, NodeId("d0"), Epoch(3), {5, 20, {{0, 1, 0, {{0, 2, 1}}}}}});
  }
  handoff::SourceId source() const { return commands<handoff::BeginSource>().back().source; }
  void accept(const protocol::AttemptKey& k) {
    event(handoff::SourceAccepted{source(), k, {}, {}});
  }
  void idle(handoff::SourceId id) { event(handoff::SourceIdle{id}); }

  PrefillCore core_{worker::small_limits(), worker::small_pools(8)};
};

}  // namespace baton::prefill_node
