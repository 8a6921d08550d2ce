// The requests of a node core, by owner: leases, tombstones, and what every message about a request
// does whatever the phase is (ARCHITECTURE.md, "Rules for what is late, lost, repeated or
// reordered"). A phase's core derives from it, adds its messages and says through the hooks what it
// holds for a request; its source file instantiates the rules (request_core_rules.h). Pure.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "baton/worker/core/step_core.h"

namespace baton::worker {

/// `PhaseJob` derives from Job.
template <typename PhaseJob>
class RequestCore : public StepCore {
 public:
  using StepCore::StepCore;

  void message(const handoff::OwnerRef& from, const protocol::Message& message, Instant arrived,
               Instant now) final;
  void owner_connected(const handoff::OwnerRef& owner, Instant now) final;
  void step_done(const Result<engine::StepEvents>& events, Instant now) final;
  void tick(Instant now) final;
  bool idle() const final { return jobs_.empty(); }
  std::vector<protocol::AttemptKey> inventory(const handoff::OwnerRef& owner) const final;

 protected:
  using Jobs = std::map<RequestId, PhaseJob>;

  // ---- hooks ----
  /// One that only this phase knows, of a current owner.
  virtual void phase_message(const handoff::OwnerRef& from, const protocol::Message& message,
                             Instant arrived, Instant now) = 0;
  /// Sends what the owner may have missed.
  virtual void repeat(const PhaseJob& job) = 0;
  /// Gives back what the phase holds for it, the sequence too.
  virtual void give_back(PhaseJob& job) = 0;
  /// The request has ended, whether or not it had a job here.
  virtual void ended(RequestId) {}
  /// Its end was counted: a Cancel that follows is not.
  virtual bool is_over(const PhaseJob&) const { return false; }
  /// Before the step's failures and tokens are told one by one.
  virtual void computed(const engine::StepPlan& step, const engine::StepEvents& events,
                        Instant now) = 0;
  virtual void failed(PhaseJob& job, const Error& error, Instant now) = 0;
  virtual void sampled(PhaseJob& job, const engine::TokenEvent& event, Instant now) = 0;

  // ---- for the phase ----
  Jobs& jobs() { return jobs_; }
  const Jobs& jobs() const { return jobs_; }
  PhaseJob* job_of(RequestId request);
  PhaseJob* job_of(engine::SequenceId sequence);
  PhaseJob& add_job(const handoff::OwnerRef& owner, const protocol::AttemptKey& key);
  /// What may create state comes here first. True: it was a repeated or late one and has got its
  /// answer. False: nothing is held for the request (any more), an earlier attempt has ended.
  bool is_answered(const handoff::OwnerRef& from, const protocol::AttemptKey& key, Instant now);
  /// About a request without a job.
  void answer_gone(const handoff::OwnerRef& from, const protocol::AttemptKey& key);
  /// Leaves a tombstone with the higher legs of `key` and the job's, if there is one.
  void end(RequestId request, const protocol::AttemptKey& key, Instant now);
  /// Those of a plan that can never grow.
  void fail_all(const std::vector<engine::SequenceId>& sequences, const Error& error, Instant now);

 private:
  void on(const handoff::OwnerRef& from, const protocol::Cancel& message, Instant now);
  void on(const handoff::OwnerRef& from, const protocol::Release& message, Instant now);
  void on(const handoff::OwnerRef& from, const protocol::Unknown& message, Instant now);
  void end_all_of(const handoff::OwnerRef& owner, Countable why, Instant now);
  std::uint32_t leg(const protocol::AttemptKey& key) const { return key.attempt.*phase().leg; }

  Jobs jobs_;
  handoff::Owners owners_;
  handoff::Tombstones tombstones_{limits().tombstones};
};

}  // namespace baton::worker
