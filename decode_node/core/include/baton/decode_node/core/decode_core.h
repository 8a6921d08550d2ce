// The decode node's decisions: which requests get blocks, which commits start decoding, what each
// step computes, what the router is told. Pure; its states are in ARCHITECTURE.md.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "baton/decode_node/core/space_queue.h"
#include "baton/engine/core/rate_model.h"
#include "baton/worker/core/convert.h"
#include "baton/worker/core/node_core.h"

namespace baton::decode_node {

class DecodeCore final : public worker::NodeCore {
 public:
  /// `first_grant`: random, so that grant numbers of two lives of this node differ.
  DecodeCore(worker::NodeLimits limits, kvcache::PoolConfig pools, std::uint64_t first_grant);

  void message(const handoff::OwnerRef& from, const protocol::Message& message, Instant arrived,
               Instant now) override;
  void owner_connected(const handoff::OwnerRef& owner, Instant now) override;
  void driver_event(const worker::DriverEvent& event, Instant now) override;
  engine::StepPlan next_step(Instant now) override;
  void layer_done(int, Instant) override {}
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
    protocol::Work work;
    bool prompt_ready = false;  ///< when it was reserved
    protocol::Grant grant;
    kvcache::SequenceBlocks blocks;  ///< until the sequence takes them over
    std::optional<engine::SequenceId> sequence;
    bool owned = false;
    std::int32_t first_index = 0;    ///< of the tokens below
    std::vector<TokenId> ids;        ///< of this attempt, the commit's first
    std::vector<Digest128> digests;  ///< when asked for
    std::vector<protocol::Tokens::Logprob> logprobs;
    std::optional<protocol::Finished> finished;  ///< until Release
    Instant committed;                           ///< the commit arrived
    Instant accepted;
    std::optional<Instant> first_row;  ///< end of the first decode step
    Instant last_row;                  ///< end of the last one
    protocol::StepFacts facts;
  };

  void on(const handoff::OwnerRef& from, const protocol::Reserve& message, Instant now);
  void on(const handoff::OwnerRef& from, const protocol::Cancel& message, Instant now);
  void on(const handoff::OwnerRef& from, const protocol::Release& message, Instant now);
  void on(const handoff::OwnerRef& from, const protocol::Resume& message, Instant now);
  void on(const handoff::OwnerRef& from, const protocol::Heartbeat& message, Instant now);
  void on(const handoff::OwnerRef& from, const protocol::Unknown& message, Instant now);
  template <typename Other>
  void on(const handoff::OwnerRef&, const Other&, Instant) {}

  void on(const handoff::CommitVerified& event, Instant now);
  void on(const handoff::GrantClosed& event, Instant now);
  template <typename Other>
  void on(const Other&, Instant) {}

  Result<void> admit(const protocol::Reserve& message) const;
  void refuse(const handoff::OwnerRef& to, const protocol::AttemptKey& key, const Error& error);
  void take_back_a_grant(Instant now);
  void start(Job& job, const handoff::CommitVerified& event, engine::Sequence sequence,
             Instant now);
  void append(Job& job, const engine::TokenEvent& event, Instant now);
  void finish(Job& job, protocol::FinishReason finish, const Error& error, Instant now);
  /// All from that index on, in as many messages as their size needs; one at least.
  void send_tokens(const Job& job, std::int32_t first_index);
  protocol::Tokens tokens_from(const Job& job, std::int32_t first_index) const;
  static protocol::PhaseTimes times_of(const Job& job, Instant decoded_until);
  void note_first_step(const engine::StepPlan& step, Instant now);
  Job* job_of(engine::SequenceId sequence);
  void end(RequestId request, const protocol::AttemptKey& key, Instant now);
  void end_all_of(const handoff::OwnerRef& owner, worker::Countable why, Instant now);
  void give_back(Job& job);
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
  SpaceQueue space_queue_;
  std::map<RequestId, Job> jobs_;
  std::map<engine::SequenceId, RequestId> by_sequence_;
  std::map<std::uint64_t, RequestId> by_grant_;
  std::map<std::uint64_t, worker::Pins> pins_;  ///< by grant, until GrantClosed
  std::uint64_t next_grant_;
  engine::StepPlan step_;  ///< under way, empty otherwise
  std::set<engine::SequenceId> leaving_;
  bool draining_ = false;
  std::vector<worker::NodeEffect> effects_;
};

}  // namespace baton::decode_node
