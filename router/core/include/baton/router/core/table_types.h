// What goes into the handoff table and what comes out of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "baton/base/result.h"
#include "baton/base/time.h"
#include "baton/protocol/messages.h"
#include "baton/router/core/workers.h"

namespace baton::router {

struct TableLimits {
  std::size_t requests = 4096;  ///< in all states but ended
  std::size_t queue = 256;      ///< waiting for workers
  Duration queue_wait = std::chrono::seconds(1);
  Duration grant_wait = std::chrono::seconds(5);   ///< Reserve sent → Granted or Refused
  Duration space_wait = std::chrono::seconds(30);  ///< first refusal for want of space → Granted
  Duration handoff_wait = std::chrono::seconds(15);  ///< token 0 known → Owned
  Duration token_wait = std::chrono::seconds(60);    ///< between two tokens of a stream
  Duration reconnect_wait =
      std::chrono::seconds(1);  ///< a lost worker, when no other can take over
  Duration facts_wait = std::chrono::milliseconds(100);  ///< end → HandoffEnded, for its figures
  Duration lease = std::chrono::seconds(5);
  int attempts_without_token = 2;  ///< new attempts in a row that brought no token
  std::size_t early_tokens = 256;  ///< kept ahead of a gap
  Duration forget_worker = std::chrono::minutes(10);  ///< after it was lost; beyond every wait
};

struct Submission {
  RequestId id;
  std::vector<TokenId> end_ids;  ///< a delivered one of these was the last token
  protocol::Work work;           ///< deadline_ms is made from `deadline` when it is sent
  Instant received;              ///< the client's last byte: it has been queued since
  Instant deadline;
};

/// One token as it is delivered.
struct Delivered {
  TokenId id = 0;
  std::optional<Digest128> digest;
  std::optional<protocol::Tokens::Logprob> logprob;
};

/// What was measured and counted about a request, for the client's trace and the metrics. Times are
/// sums over its attempts.
struct RequestFacts {
  protocol::PhaseTimes times;  ///< queue: with the router's own
  Duration commit_answered{};  ///< as HandoffFacts::answered
  protocol::StepFacts prefill;
  protocol::StepFacts decode;
  protocol::HandoffFacts handoff;
  std::int64_t cached_tokens = 0;  ///< of the prompt, that prefill took from its prefix cache
  int attempts = 1;
  NodeId prefill_node;
  NodeId decode_node;
};

// Effects.
struct SendTo {
  WorkerRef worker;
  protocol::Message message;
};
struct DeliverTokens {
  RequestId request;
  std::int32_t first_index = 0;
  std::vector<Delivered> tokens;
};
struct RequestEnded {
  RequestId request;
  protocol::FinishReason finish = protocol::FinishReason::stop;
  std::optional<Error> error;  ///< when finish is error
  RequestFacts facts;
};
/// For the counters: a new attempt was made, and why.
struct AttemptMade {
  RequestId request;
  Reason reason = Reason::internal;
};
struct HandoffFailed {
  Reason reason = Reason::internal;
};
struct HandoffDone {
  protocol::HandoffFacts facts;
};
using TableEffect =
    std::variant<SendTo, DeliverTokens, RequestEnded, AttemptMade, HandoffFailed, HandoffDone>;

}  // namespace baton::router
