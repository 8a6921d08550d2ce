// The prefill node's decisions: which prompts are computed when, what is offered to which decode
// node, what the router is told. Pure; its states are in ARCHITECTURE.md.
#pragma once

#include <cstdint>
#include <optional>

#include "baton/worker/core/request_core.h"

namespace baton::prefill_node {

/// What the prefill node holds for an attempt.
struct PrefillJob : worker::Job {
  bool needs_target = true;
  std::int64_t length = 0;       ///< positions to compute
  std::int32_t first_index = 0;  ///< of the token sampled here
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

class PrefillCore final : public worker::RequestCore<PrefillJob> {
 public:
  PrefillCore(worker::NodeLimits limits, kvcache::PoolConfig pools);

  void driver_event(const worker::DriverEvent& event, Instant now) override;
  engine::StepPlan next_step(Instant now) override;
  void layer_done(int layer, Instant now) override;
  protocol::Load load() const override;

 private:
  using Job = PrefillJob;

  void phase_message(const handoff::OwnerRef& from, const protocol::Message& message,
                     Instant arrived, Instant now) override;
  void repeat(const Job& job) override;
  void give_back(Job& job) override;
  void computed(const engine::StepPlan& step, const engine::StepEvents& events,
                Instant now) override;
  void failed(Job& job, const Error& error, Instant now) override;
  void sampled(Job& job, const engine::TokenEvent& event, Instant now) override;

  void on(const handoff::OwnerRef& from, const protocol::Prefill& message, Instant arrived,
          Instant now);
  void on(const handoff::OwnerRef& from, const protocol::Target& message);

  void on(const handoff::SourceAccepted& event);
  void on(const handoff::SourceFailed& event);
  void on(const handoff::SourceIdle& event);
  template <typename Other>
  void on(const Other&) {}

  Result<engine::Sequence> admit(const protocol::Prefill& message, Instant now) const;
  bool blocks_come_back() const;
  void preempt(Job& job);
  void note_start(Job& job, const engine::PrefillRows& rows, Instant now);
  void refresh_source(Job& job);
  void send_target(Job& job);
  void finish(Job& job, protocol::Finished finished);
  Job* job_of_source(handoff::SourceId source);
  handoff::SourceId next_source() { return handoff::SourceId(next_source_++); }

  std::uint64_t next_source_ = 1;
};

}  // namespace baton::prefill_node

extern template class baton::worker::RequestCore<baton::prefill_node::PrefillJob>;
