#pragma once

#include "baton/decode_node/core/decode_core.h"

#include "support/worker/node_fixture.h"

namespace baton::decode_node {

using protocol::FinishReason;
using worker::Countable;
using namespace std::chrono_literals;  // NOLINT: durations in every test

class DecodeFixture : public worker::NodeFixture {
 protected:
  worker::NodeCore& core() override { return core_; }
  void ask_for(const protocol::AttemptKey& k) override { reserve(k); }

  void reserve(const protocol::AttemptKey& k, std::size_t prompt = 20, std::int32_t max_tokens = 5,
               bool prompt_ready = false) {
    say(protocol::Reserve{k, work(prompt, max_tokens), 5000, prompt_ready});
  }
  /// The receiver has proved everything that the last grant asked for.
  void verify(const protocol::AttemptKey& k, std::vector<TokenId> ids = {worker::sampled_id}) {
    const auto open = commands<handoff::OpenGrant>();
    for (const handoff::OpenGrant& each : open) {
      if (each.key != k) continue;
      protocol::Commit commit;
      commit.key = k;
      commit.grant = each.grant.id;
      commit.length = each.grant.length;
      commit.tokens.key = k;
      commit.tokens.ids = ids;
      event(handoff::CommitVerified{handoff::LinkId(1), commit});
      return;
    }
    ADD_FAILURE() << "no grant was opened for this attempt";
  }
  void closed() {
    for (const handoff::CloseGrant& each : commands<handoff::CloseGrant>()) {
      event(handoff::GrantClosed{each.grant});
    }
  }
  void run(const protocol::AttemptKey& k, std::int32_t max_tokens = 5) {
    reserve(k, 20, max_tokens);
    verify(k);
    closed();
  }
  std::vector<TokenId> told_ids() const {
    std::vector<TokenId> out;
    for (const auto& tokens : told<protocol::Tokens>()) {
      out.insert(out.end(), tokens.ids.begin(), tokens.ids.end());
    }
    return out;
  }

  DecodeCore core_{worker::small_limits(), worker::small_pools(8), 100};
};

}  // namespace baton::decode_node
