// The native form of every control message. The table of who sends what to whom, with idempotency
// keys, answers and deadlines, is in ARCHITECTURE.md; the wire form in proto/baton.proto.
//
// Every message travels in an Envelope that names the epoch it is meant for; a receiver of another
// epoch answers nothing, counts stale_epoch and drops it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "baton/base/ids.h"
#include "baton/base/reason.h"
#include "baton/base/time.h"
#include "baton/protocol/data_plane.h"
#include "baton/protocol/hello.h"
#include "baton/protocol/work.h"

namespace baton::protocol {

/// A request and the legs of its current attempt: the idempotency key of most messages.
struct AttemptKey {
  RequestId request;
  Attempt attempt;
  friend bool operator==(const AttemptKey&, const AttemptKey&) = default;
};

// ---- router → worker ----

/// Asks a decode worker for blocks, or to compute the prompt itself. Creates state.
struct Reserve {
  AttemptKey key;
  Work work;
  std::int64_t lease_ms = 0;
  bool prompt_ready = false;  ///< computed, and held by the prefill worker until it is handed over
  bool may_compute = false;   ///< no prefill worker has it: Owned instead of Granted is welcome
};
/// Asks a prefill worker to compute. Creates state. Without `needs_target` it ends at token 0.
struct Prefill {
  AttemptKey key;
  Work work;
  std::int64_t lease_ms = 0;
  bool needs_target = true;
};
/// Tells a prefill worker where the units of an attempt go.
struct Target {
  AttemptKey key;
  NodeId node;
  Epoch epoch;  ///< of the decode worker
  Grant grant;
};
/// Ends this attempt of the request and every earlier one.
struct Cancel {
  AttemptKey key;
};
/// The router has everything of this attempt: the worker may forget it.
struct Release {
  AttemptKey key;
};
/// After a new connection: send the tokens from this index on again.
struct Resume {
  AttemptKey key;
  std::int32_t next_index = 0;
};
/// Renews every lease of this owner; sent every half second.
struct Heartbeat {
  std::int64_t lease_ms = 0;
};
/// The decode workers that a prefill worker keeps pair connections to; the whole list.
struct Peers {
  struct Peer {
    NodeId node;
    Epoch epoch;
    std::string control_address;  ///< host:port
    friend bool operator==(const Peer&, const Peer&) = default;
  };
  std::vector<Peer> decode;
};
/// Answer to Inventory: what the owner does not know and the holder frees.
struct Unknown {
  std::vector<AttemptKey> keys;
};
/// Asks for the tokenizer bundle.
struct BundleRequest {};

// ---- worker → router ----

struct Granted {
  AttemptKey key;
  Grant grant;
};
/// Refuses Reserve, Prefill or Target.
struct Refused {
  AttemptKey key;
  Reason reason = Reason::internal;
  std::string message;
  std::int64_t retry_after_ms = 0;
};
/// Tokens [first_index, first_index + ids.size()) of an attempt.
struct Tokens {
  struct Logprob {
    float chosen = 0;
    std::vector<std::pair<TokenId, float>> top;
    friend bool operator==(const Logprob&, const Logprob&) = default;
  };
  AttemptKey key;
  std::int32_t first_index = 0;
  std::vector<TokenId> ids;
  std::vector<Digest128> digests;  ///< of the logits rows; empty unless asked for
  std::vector<Logprob> logprobs;   ///< empty unless asked for
  PhaseTimes times;                ///< what this worker measured so far
  std::int64_t cached_tokens = 0;  ///< of prefill: positions that it took from its prefix cache
};
enum class FinishReason : std::uint8_t { stop = 1, length = 2, error = 3, cancelled = 4 };
/// The attempt ended on this worker; repeated on every new connection until Release.
struct Finished {
  AttemptKey key;
  FinishReason finish = FinishReason::stop;
  Reason reason = Reason::internal;  ///< when finish is error
  std::string message;
  std::int32_t tokens = 0;  ///< index after the last token
  PhaseTimes times;
  StepFacts facts;
};
/// The decode worker has accepted the commit and decodes, or computes the prompt itself.
struct Owned {
  AttemptKey key;
  std::int32_t next_index = 0;
};
/// The prefill worker's view of an accepted handoff, or of one that failed.
struct HandoffEnded {
  AttemptKey key;
  bool accepted = false;
  Reason reason = Reason::internal;  ///< when not accepted
  std::string message;
  HandoffFacts facts;
};
/// Answer to Cancel and Release and to any message about an attempt with no state: nothing is held.
struct Gone {
  AttemptKey key;
};
/// Load and health, every half second and after each change that matters to placement.
struct Report {
  Load load;
  bool draining = false;
};
/// What this worker holds for the router it is sent to, every five seconds.
struct Inventory {
  std::vector<AttemptKey> keys;
};
/// A part of the tokenizer bundle; parts are at most 256 KiB.
struct BundlePart {
  std::uint32_t index = 0;
  std::uint32_t count = 0;
  std::string bytes;
};

// ---- prefill ↔ decode ----

/// Last message of a handoff (prefill to decode).
struct Commit {
  AttemptKey key;
  std::uint64_t grant = 0;
  std::int64_t length = 0;  ///< P + generated ids before this leg: positions in the cache
  Digest256 fingerprint;
  std::vector<ComponentRoot> components;
  std::int32_t first_index = 0;
  Tokens tokens;  ///< the tokens sampled on this leg (token 0)
};
struct Accepted {
  AttemptKey key;
};
/// `bad` are sent again once; when it is empty the handoff has failed.
struct CommitRefused {
  AttemptKey key;
  Reason reason = Reason::internal;
  std::string message;
  std::vector<UnitRange> bad;
};

using Message = std::variant<Hello, HelloAck, HelloRefused, Reserve, Prefill, Target, Cancel,
                             Release, Resume, Heartbeat, Peers, Unknown, BundleRequest, Granted,
                             Refused, Tokens, Finished, Owned, HandoffEnded, Gone, Report,
                             Inventory, BundlePart, Commit, Accepted, CommitRefused>;

struct Envelope {
  Epoch from;
  Epoch to;  ///< 0 in Hello only
  Message message;
};

/// Lower-case name of the message for logs and metrics ("reserve", "commit", …).
const char* name(const Message& message);

}  // namespace baton::protocol
