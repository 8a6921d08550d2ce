// What a node core is beside its requests: pools and the sequences in them, the step under way,
// blocks that the transport still uses, effects that wait to be taken. Pure; RequestCore builds on
// it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "baton/engine/core/rate_model.h"
#include "baton/worker/core/convert.h"
#include "baton/worker/core/node_core.h"

namespace baton::worker {

/// In what the two phases differ where they otherwise do the same.
struct Phase {
  std::uint32_t Attempt::*leg;  ///< the leg that this node's requests are fenced by
  kvcache::HolderKind pin;      ///< how blocks are held for the transport
  std::int64_t retry_after_ms;  ///< hint of a refusal
};

/// What is held for an attempt of a request. Each phase adds its own.
struct Job {
  protocol::AttemptKey key;
  handoff::OwnerRef owner;
  std::optional<engine::SequenceId> sequence;  ///< none once its blocks were given back
};

class StepCore : public NodeCore {
 public:
  StepCore(const Phase& phase, NodeLimits limits, kvcache::PoolConfig pools);

  bool cancelled(engine::SequenceId sequence) final { return leaving_.contains(sequence); }
  void drain() final { draining_ = true; }
  std::vector<NodeEffect> take_effects() final;
  kvcache::BlockPools& pools() final { return pools_; }
  const kvcache::BlockPools& pools() const final { return pools_; }
  engine::SequenceTable& table() final { return table_; }

 protected:
  const Phase& phase() const { return phase_; }
  const NodeLimits& limits() const { return limits_; }
  const engine::SequenceTable& table() const { return table_; }
  const engine::RateModel& rates() const { return rates_; }
  bool draining() const { return draining_; }

  // ---- effects ----
  void add(NodeEffect effect) { effects_.push_back(std::move(effect)); }
  void send(const handoff::OwnerRef& to, protocol::Message message);
  void command(handoff::EngineCommand command) { add(ToDriver{std::move(command)}); }
  void count(Countable what, Reason reason = Reason::internal) { add(Counted{what, reason, {}}); }
  void refuse(const handoff::OwnerRef& to, const protocol::AttemptKey& key, const Error& error);

  // ---- sequences and steps ----
  void add_sequence(Job& job, engine::Sequence sequence);
  /// Frees its blocks: now, or once it has left the step under way.
  void give_back_sequence(Job& job);
  std::optional<RequestId> request_of(engine::SequenceId sequence) const;
  void begin_step(engine::StepPlan plan) { step_ = std::move(plan); }
  /// The step under way, empty otherwise.
  const engine::StepPlan& step() const { return step_; }
  /// Returns the step that was under way.
  engine::StepPlan end_step();
  void observe(const engine::StepEvents& events) {
    // Rows that left it under way make a step shorter than its shape says.
    if (events.cancelled.empty()) rates_.observe(events.shape, events.took);
  }

  // ---- blocks that the transport uses, by source or grant ----
  /// Those that a handoff at `length` needs.
  void pin(std::uint64_t handle, const kvcache::SequenceBlocks& blocks, std::int64_t length);
  void unpin(std::uint64_t handle);
  std::size_t pinned() const { return pins_.size(); }  ///< sources or grants

  /// Room in the first group, and what is left to compute of prompts.
  protocol::Load base_load() const;

 private:
  struct Known {
    RequestId request;
    std::int64_t hit = 0;  ///< of the prefix cache, when it was added
  };

  Phase phase_;
  NodeLimits limits_;
  kvcache::BlockPools pools_;
  engine::SequenceTable table_;
  engine::RateModel rates_;
  std::map<engine::SequenceId, Known> by_sequence_;
  std::map<std::uint64_t, Pins> pins_;
  engine::StepPlan step_;
  std::set<engine::SequenceId> leaving_;  ///< cancelled while a step is under way
  bool draining_ = false;
  std::vector<NodeEffect> effects_;
};

}  // namespace baton::worker
