// The prefill node's decisions: which prompts are computed when, what is offered to which decode
// node, what the router is told. Pure; its states are in ARCHITECTURE.md.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "baton/engine/core/rate_model.h"
#include "baton/worker/core/convert.h"
#include "baton/worker/core/node_core.h"

namespace baton::prefill_node {

class PrefillCore final : public worker::NodeCore {
 public:
  PrefillCore(worker::NodeLimits limits, kvcache::PoolConfig pools);

  void message(const handoff::OwnerRef& from, const protocol::Message& message, Instant arrived,
               Instant now) override;
  void owner_connected(const handoff::OwnerRef& owner, Instant now) override;
  void driver_event(const worker::DriverEvent& event, Instant now) override;
  engine::StepPlan next_step(Instant now) override;
  void layer_done(int layer, Instant now) override;
  bool cancelled(engine::SequenceId sequence) override;
  void step_done(const Result<engine::StepEvents>& events, Instant now) override;
  void tick(Instant now) override;
  void drain() override { draining_ = true; }
  bool idle() const override { return jobs_.empty(); }
  std::vector<worker::NodeEffect> take_effects() override;
  protocol::Load load() const override;
  std::vector<protocol::AttemptKey> inventory(const handoff::OwnerRef& owner) const override;
  kvcache::BlockPools& pools() override { return pools_; }
  const kvcache::BlockPools& pools() const override { return pools_; }
  engine::SequenceTable& table() override { return table_; }

 private:
  struct Job {
    protocol::AttemptKey key;
    handoff::OwnerRef owner;
    bool needs_target = true;
    std::int64_t length = 0;                     ///< positions to compute
    std::int32_t first_index = 0;                ///< of the token sampled here
    std::optional<engine::SequenceId> sequence;  ///< none once its blocks were given back
    handoff::SourceId source;
    bool source_begun = false;
    std::optional<protocol::Target> target;
    std::optional<protocol::Tokens> tokens;    ///< sampled
    std::optional<protocol::Message> outcome;  ///< Finished or HandoffEnded, until Release
    bool handed_over = false;
    Instant received;
    std::optional<Instant> started;
    std::int64_t prompt_rows = 0;
    std::int64_t cached_tokens = 0;  ///< taken from the prefix cache
  };

  void on(const handoff::OwnerRef& from, const protocol::Prefill& message, Instant arrived,
          Instant now);
  void on(const handoff::OwnerRef& from, const protocol::Target& message, Instant now);
  void on(const handoff::OwnerRef& from, const protocol::Cancel& message, Instant now);
  void on(const handoff::OwnerRef& from, const protocol::Release& message, Instant now);
  void on(const handoff::OwnerRef& from, const protocol::Heartbeat& message, Instant now);
  void on(const handoff::OwnerRef& from, const protocol::Unknown& message, Instant now);
  template <typename Other>
  void on(const handoff::OwnerRef&, const Other&, Instant) {}

  void on(const handoff::SourceAccepted& event, Instant now);
  void on(const handoff::SourceFailed& event, Instant now);
  void on(const handoff::SourceIdle& event, Instant now);
  template <typename Other>
  void on(const Other&, Instant) {}

  Result<engine::Sequence> admit(const protocol::Prefill& message, Instant now) const;
  void refuse(const handoff::OwnerRef& to, const protocol::AttemptKey& key, const Error& error);
  void note_start(Job& job, const engine::PrefillRows& rows, Instant now);
  void refresh_source(Job& job);
  void send_target(Job& job);
  void sampled(Job& job, const engine::TokenEvent& event, Instant now);
  void computation_failed(Job& job, const Error& error);
  Job* job_of(engine::SequenceId sequence);
  Job* job_of(handoff::SourceId source);
  /// Everything that the job holds is given back; what still sends keeps its pins.
  void end(RequestId request, const protocol::AttemptKey& key, Instant now);
  void end_all_of(const handoff::OwnerRef& owner, worker::Countable why, Instant now);
  void give_back_sequence(Job& job);
  void repeat(const Job& job);
  void send(const handoff::OwnerRef& to, protocol::Message message) {
    effects_.push_back(worker::ToOwner{to, std::move(message)});
  }
  void command(handoff::EngineCommand command) {
    effects_.push_back(worker::ToDriver{std::move(command)});
  }

  worker::NodeLimits limits_;
  kvcache::BlockPools pools_;
  engine::SequenceTable table_;
  engine::RateModel rates_;
  handoff::Owners owners_;
  handoff::Tombstones tombstones_;
  std::map<RequestId, Job> jobs_;
  std::map<engine::SequenceId, RequestId> by_sequence_;
  std::map<handoff::SourceId, worker::Pins> pins_;
  std::uint64_t next_source_ = 1;
  engine::StepPlan step_;                 ///< under way, empty otherwise
  std::set<engine::SequenceId> leaving_;  ///< cancelled while a step is under way
  bool draining_ = false;
  std::vector<worker::NodeEffect> effects_;
};

}  // namespace baton::prefill_node
