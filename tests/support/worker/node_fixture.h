// A node core that is driven by hand: messages and driver events in, effects kept by kind
// (effect_record.h), steps computed by a model whose every token is 7.
#pragma once

#include <cstdint>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "baton/worker/core/node_core.h"

#include "support/worker/effect_record.h"
#include "support/worker/small_node.h"

namespace baton::worker {

using handoff::OwnerRef;
using std::chrono::milliseconds;
using std::chrono::seconds;

/// What can end a request in any state.
enum class EndBy : std::uint8_t { cancel, release, lease, new_life, unknown, higher_leg };
inline constexpr EndBy every_end[] = {EndBy::cancel,   EndBy::release, EndBy::lease,
                                      EndBy::new_life, EndBy::unknown, EndBy::higher_leg};

class NodeFixture : public testing::Test, protected EffectRecord {
 protected:
  virtual NodeCore& core() = 0;
  /// Sends the message that creates a job for this attempt.
  virtual void ask_for(const protocol::AttemptKey& key) = 0;

  const OwnerRef router{NodeId("r"), Epoch(1)};

  static protocol::AttemptKey key(std::uint64_t request, std::uint32_t prefill_leg = 1,
                                  std::uint32_t decode_leg = 1) {
    return {{1, request}, {prefill_leg, decode_leg}};
  }
  static protocol::Work work(std::size_t prompt = 20, std::int32_t max_tokens = 5) {
    protocol::Work out;
    out.prompt_ids.assign(prompt, 3);
    out.sampling.max_tokens = max_tokens;
    out.deadline_ms = 60'000;
    out.prefix_root.emplace();
    return out;
  }

  void say(protocol::Message message) { say(router, std::move(message)); }
  void say(const OwnerRef& from, protocol::Message message) {
    core().message(from, message, now, now);
    collect();
  }
  void connect(const OwnerRef& owner) {
    core().owner_connected(owner, now);
    collect();
  }
  void event(DriverEvent each) {
    core().driver_event(each, now);
    collect();
  }
  void pass(Duration time) {
    now += time;
    core().tick(now);
    collect();
  }

  /// Ends request 1, which was asked for with its first legs.
  void end(EndBy by) {
    switch (by) {
      case EndBy::cancel:
        return say(protocol::Cancel{key(1)});
      case EndBy::release:
        return say(protocol::Release{key(1)});
      case EndBy::lease:
        return pass(small_limits().lease);
      case EndBy::new_life:
        return connect({router.node, Epoch(router.epoch.value() + 1)});
      case EndBy::unknown:
        return say(protocol::Unknown{{key(1)}});
      case EndBy::higher_leg:
        ask_for(key(1, 2, 2));
        return say(protocol::Cancel{key(1, 2, 2)});
    }
  }

  // ---- steps ----
  void begin_step() {
    plan = core().next_step(now);
    collect();
    if (!plan.empty()) {
      const Result<void> prepared = engine::prepare_step(plan, core().table(), core().pools());
      EXPECT_TRUE(prepared.has_value());
    }
  }
  void layer(int index) {
    core().layer_done(index, now);
    collect();
  }
  /// Ends the step that begin_step() planned; rows that were cancelled have left it.
  void end_step(TokenId sample = sampled_id) {
    engine::StepEvents events;
    events.shape = plan.shape;
    events.took = milliseconds(2);
    for (const auto& row : plan.decode) {
      if (leaves(row.sequence, events)) continue;
      core().table().find(row.sequence)->advance(1, ++steps, core().pools());
      sample_into(events, row.sequence, sample);
    }
    for (const auto& rows : plan.prefill) {
      if (leaves(rows.sequence, events)) continue;
      engine::Sequence& sequence = *core().table().find(rows.sequence);
      sequence.advance(rows.count, ++steps, core().pools());
      events.chunks.push_back(rows);
      if (sequence.cached() == sequence.length()) sample_into(events, rows.sequence, sample);
    }
    plan = {};
    core().step_done(events, now);
    collect();
  }
  void step(TokenId sample = sampled_id) {
    begin_step();
    layer(0);
    layer(1);
    end_step(sample);
  }
  /// The computation itself fails.
  void failing_step(Reason reason) {
    begin_step();
    core().step_done(Error(reason, "broken"), now);
    collect();
  }

  /// Nothing is held by anybody.
  void expect_baseline() {
    for (int group = 0; group < core().pools().groups(); ++group) {
      const kvcache::PoolCounts counts_now = core().pools().counts(group);
      EXPECT_EQ(counts_now.free + counts_now.cached, counts_now.total);
      EXPECT_EQ(counts_now.quarantined, 0);
      EXPECT_THAT(counts_now.references, testing::Each(0));
    }
    EXPECT_TRUE(core().table().all().empty());
    EXPECT_TRUE(core().idle());
    EXPECT_TRUE(core().inventory(router).empty());
  }

  void collect() { record(core().take_effects()); }

  Instant now{};
  engine::StepPlan plan;
  std::uint64_t steps = 0;

 private:
  bool leaves(engine::SequenceId id, engine::StepEvents& events) {
    if (!core().cancelled(id)) return false;
    core().table().remove(id, core().pools());
    events.cancelled.push_back(id);
    return true;
  }
  void sample_into(engine::StepEvents& events, engine::SequenceId id, TokenId sample) {
    engine::TokenEvent out;
    out.sequence = id;
    engine::Sequence& sequence = *core().table().find(id);
    out.index = sequence.generated_count();
    out.id = sample;
    out.finish = sequence.append(sample);
    events.tokens.push_back(out);
  }
};

}  // namespace baton::worker
