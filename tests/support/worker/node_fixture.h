// A node core that is driven by hand: messages and driver events in, effects kept by kind, steps
// computed by a model whose every token is 7.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "baton/worker/core/node_core.h"

#include "support/worker/small_node.h"

namespace baton::worker {

using handoff::OwnerRef;
using std::chrono::milliseconds;
using std::chrono::seconds;

class NodeFixture : public testing::Test {
 protected:
  virtual NodeCore& core() = 0;

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

  // ---- effects ----
  template <typename Message>
  std::vector<Message> told() const {
    std::vector<Message> out;
    for (const protocol::Message& each : to_owner) {
      if (const auto* message = std::get_if<Message>(&each)) out.push_back(*message);
    }
    return out;
  }
  template <typename Message>
  std::vector<Message> told_to(const OwnerRef& owner) const {
    std::vector<Message> out;
    for (std::size_t i = 0; i < to_owner.size(); ++i) {
      const auto* message = std::get_if<Message>(&to_owner[i]);
      if (message != nullptr && recipients[i] == owner) out.push_back(*message);
    }
    return out;
  }
  template <typename Command>
  std::vector<Command> commands() const {
    std::vector<Command> out;
    for (const auto& each : to_driver) {
      if (const auto* command = std::get_if<Command>(&each)) out.push_back(*command);
    }
    return out;
  }
  template <typename Message>
  std::vector<Message> told_pair() const {
    std::vector<Message> out;
    for (const protocol::Message& each : to_pair) {
      if (const auto* message = std::get_if<Message>(&each)) out.push_back(*message);
    }
    return out;
  }
  int counted(Countable what) const {
    const auto found = counts.find(what);
    return found == counts.end() ? 0 : found->second;
  }
  int counted(Countable what, Reason why) const {
    const auto found = counts_by_reason.find({what, why});
    return found == counts_by_reason.end() ? 0 : found->second;
  }
  void forget() {
    to_owner.clear();
    recipients.clear();
    to_driver.clear();
    to_pair.clear();
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

  void collect() {
    for (NodeEffect& effect : core().take_effects()) {
      if (auto* owner = std::get_if<ToOwner>(&effect)) {
        to_owner.push_back(std::move(owner->message));
        recipients.push_back(owner->owner);
      } else if (auto* pair = std::get_if<ToPair>(&effect)) {
        to_pair.push_back(std::move(pair->message));
      } else if (auto* driver = std::get_if<ToDriver>(&effect)) {
        to_driver.push_back(std::move(driver->command));
      } else if (auto* count = std::get_if<Counted>(&effect)) {
        ++counts[count->what];
        ++counts_by_reason[{count->what, count->reason}];
      } else if (auto* looked_up = std::get_if<PrefixLookedUp>(&effect)) {
        lookups.push_back(*looked_up);
      }
    }
  }

  Instant now{};
  engine::StepPlan plan;
  std::uint64_t steps = 0;
  std::vector<protocol::Message> to_owner;
  std::vector<OwnerRef> recipients;  ///< of to_owner, one each
  std::vector<protocol::Message> to_pair;
  std::vector<handoff::EngineCommand> to_driver;
  std::map<Countable, int> counts;
  std::vector<PrefixLookedUp> lookups;
  std::map<std::pair<Countable, Reason>, int> counts_by_reason;

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
