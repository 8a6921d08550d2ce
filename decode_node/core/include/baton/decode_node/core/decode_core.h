// The decode node's decisions: which requests get blocks, which commits start decoding, what each
// step computes, what the router is told. Pure; its states are in ARCHITECTURE.md.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "baton/decode_node/core/space_queue.h"
#include "baton/worker/core/request_core.h"

namespace baton::decode_node {

/// A prompt that the decode node computes itself: little enough of it was not cached.
struct LocalPrefill {
  Instant received;
  std::optional<Instant> started;  ///< first rows planned
  std::int64_t length = 0;
  std::int64_t cached_tokens = 0;
};

/// What the decode node holds for an attempt.
struct DecodeJob : worker::Job {
  protocol::Work work;
  bool prompt_ready = false;  ///< when it was reserved
  protocol::Grant grant;
  std::int64_t held_tokens = 0;        ///< of the grant: what was here already
  kvcache::SequenceBlocks blocks;      ///< until the sequence takes them over
  std::optional<prefix::Chain> chain;  ///< of all ids but the commit's
  bool owned = false;
  std::optional<LocalPrefill> local;  ///< no grant and no commit then
  std::int32_t first_index = 0;       ///< of the tokens below
  std::vector<TokenId> ids;           ///< of this attempt, the commit's first
  std::vector<Digest128> digests;     ///< when asked for
  std::vector<protocol::Tokens::Logprob> logprobs;
  std::optional<protocol::Finished> finished;  ///< until Release
  Instant committed;                 ///< the commit arrived, or the first token was sampled here
  Instant accepted;                  ///< the commit was, or the first token was sampled here
  std::optional<Instant> first_row;  ///< end of the first decode step
  Instant last_row;                  ///< end of the last one
  protocol::StepFacts facts;
};

class DecodeCore final : public worker::RequestCore<DecodeJob> {
 public:
  /// `first_grant`: random, so that grant numbers of two lives of this node differ.
  DecodeCore(worker::NodeLimits limits, kvcache::PoolConfig pools, std::uint64_t first_grant);

  void driver_event(const worker::DriverEvent& event, Instant now) override;
  engine::StepPlan next_step(Instant now) override;
  void layer_done(int, Instant) override {}
  protocol::Load load() const override;

 private:
  using Job = DecodeJob;

  void phase_message(const handoff::OwnerRef& from, const protocol::Message& message,
                     Instant arrived, Instant now) override;
  void repeat(const Job& job) override;
  void give_back(Job& job) override;
  void ended(RequestId request) override { space_queue_.leave(request); }
  bool is_over(const Job& job) const override { return job.finished.has_value(); }
  void computed(const engine::StepPlan& step, const engine::StepEvents& events,
                Instant now) override;
  void failed(Job& job, const Error& error, Instant now) override;
  void sampled(Job& job, const engine::TokenEvent& event, Instant now) override;

  void on(const handoff::OwnerRef& from, const protocol::Reserve& message, Instant arrived,
          Instant now);
  void on(const handoff::OwnerRef& from, const protocol::Resume& message);

  void on(const handoff::CommitVerified& event, Instant now);
  void on(const handoff::GrantClosed& event, Instant now);
  void on(const handoff::HeldUnitsDiffer& event, Instant now);
  template <typename Other>
  void on(const Other&, Instant) {}

  /// What a reservation gets.
  struct Space {
    kvcache::SequenceBlocks blocks;
    std::optional<prefix::Chain> chain;
    std::vector<std::int64_t> held_to;  ///< see worker::grant_of()
  };

  Result<void> admit(const protocol::Reserve& message) const;
  bool a_victim_waits() const;
  Result<bool> place(const handoff::OwnerRef& to, const protocol::Reserve& message, Instant arrived,
                     Instant now);
  Result<std::optional<engine::Sequence>> to_compute(const protocol::Reserve& message,
                                                     Instant now) const;
  bool compute(const handoff::OwnerRef& to, const protocol::Reserve& message,
               engine::Sequence sequence, Instant arrived);
  std::optional<Space> find_space(const protocol::Work& work);
  void grant(const handoff::OwnerRef& to, const protocol::Reserve& message, Space space);
  void take_back_a_grant(Instant now);
  void start(Job& job, const handoff::CommitVerified& event, engine::Sequence sequence,
             Instant now);
  void finish(Job& job, protocol::FinishReason finish, const Error& error, Instant now);
  /// All from that index on, in as many messages as their size needs; one at least.
  void send_tokens(const Job& job, std::int32_t first_index);
  protocol::Tokens tokens_from(const Job& job, std::int32_t first_index) const;
  static protocol::PhaseTimes times_of(const Job& job, Instant decoded_until);
  void note_first_step(const engine::StepPlan& step, Instant now);

  SpaceQueue space_queue_;
  std::map<std::uint64_t, RequestId> by_grant_;
  std::uint64_t next_grant_;
};

}  // namespace baton::decode_node

extern template class baton::worker::RequestCore<baton::decode_node::DecodeJob>;
