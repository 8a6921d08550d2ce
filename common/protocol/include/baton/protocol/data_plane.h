// Values inside control messages: grants, unit names, component roots, facts that are measured.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "baton/base/ids.h"
#include "baton/base/time.h"

namespace baton::protocol {

/// Kinds of data that a handoff may carry. An unknown one is refused.
enum class Component : std::uint8_t { k = 1, v = 2 };

/// A run of neighbouring blocks that share a slot generation.
struct SlotRun {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
  std::uint32_t generation = 0;
  friend bool operator==(const SlotRun&, const SlotRun&) = default;
};

/// Blocks of one layer group of a grant, in run order: the first is the block that contains unit
/// first_unit, i.e. local index first_unit / block_units of the sequence.
struct GrantGroup {
  std::uint32_t group = 0;
  std::uint32_t block_units = 1;
  std::uint32_t first_unit = 0;  ///< > 0 when a window makes earlier units unnecessary
  std::vector<SlotRun> slots;
  /// So many units from first_unit on are here already, whole, and are not to be sent.
  std::uint32_t held_units = 0;
  friend bool operator==(const GrantGroup&, const GrantGroup&) = default;
};

/// What a decode worker holds for an attempt.
struct Grant {
  std::uint64_t id = 0;
  std::int64_t length = 0;  ///< positions that the handoff brings
  std::vector<GrantGroup> groups;
  friend bool operator==(const Grant&, const Grant&) = default;
};

/// Units [first, first + count) of one component and layer.
struct UnitRange {
  Component component = Component::k;
  std::uint32_t layer = 0;
  std::uint32_t first = 0;
  std::uint32_t count = 0;
  friend bool operator==(const UnitRange&, const UnitRange&) = default;
};

/// Content root of one component of one layer group: XXH3-128 over the content digests of its units
/// in (layer, index) order.
struct ComponentRoot {
  Component component = Component::k;
  std::uint32_t group = 0;
  std::uint32_t dtype = 0;  ///< tensor::CacheDtype
  std::uint64_t unit_bytes = 0;
  std::uint32_t layers = 0;
  std::uint32_t first_unit = 0;
  std::uint32_t units = 0;  ///< per layer
  Digest128 root;
  friend bool operator==(const ComponentRoot&, const ComponentRoot&) = default;
};

/// How a prefill worker reaches this decode worker's data plane.
struct DataLink {
  std::string transport;  ///< "shm", "ucx"
  std::string address;
  RequestId token;   ///< presented when connecting
  RequestId secret;  ///< keys the binding digests of this pair
  std::string why;   ///< why this transport was chosen
};

/// What a worker is, for the router and for people.
struct WorkerInfo {
  std::string model;
  std::string numerics_class;
  std::string kernel_set;
  std::string cache_dtype;
  std::int64_t context_length = 0;
  std::int64_t cache_tokens = 0;  ///< capacity of the scarcest pool in positions
  std::string control_address;    ///< advertised host:port
  std::string admin_url;
  std::string bundle_digest;  ///< of the tokenizer bundle, hexadecimal SHA-256
  std::vector<std::string> transports;
  /// Decode: a prompt of which at most so many tokens are not in its prefix cache is computed
  /// there.
  std::int64_t prefill_suffix_tokens = 0;
  bool prefix_cache = true;  ///< whole blocks are kept for requests to come
};

struct Load {
  std::int32_t queued = 0;
  std::int32_t running = 0;
  std::int32_t handoffs = 0;        ///< begun, not accepted or ended
  std::int64_t backlog_tokens = 0;  ///< prompt tokens queued and not computed yet
  Duration backlog{};               ///< predicted time to compute them
  std::int64_t free_tokens = 0;     ///< positions that can be granted now
  std::int64_t capacity_tokens = 0;
};

/// Parts of a request's time, each on the clock of the process that measured it (P8). Zero: not
/// yet.
struct PhaseTimes {
  Duration queue{};            ///< prefill: Prefill received → first row planned
  Duration prefill{};          ///< prefill: → token 0 sampled
  Duration handoff_exposed{};  ///< prefill: → Accepted received; told in HandoffFacts
  Duration first_decode{};     ///< decode: Accepted sent → end of its first row
  Duration decode{};           ///< decode: → end of its last row
  Duration commit_held{};      ///< decode: Commit received → Accepted sent
  friend bool operator==(const PhaseTimes&, const PhaseTimes&) = default;
};

/// Counted by the forward pass itself.
struct StepFacts {
  std::int64_t prompt_rows = 0;      ///< prompt rows computed on this worker for this attempt
  std::int32_t first_step_rows = 0;  ///< decode: rows of its first step (1)
  std::int64_t cache_before = 0;     ///< decode: positions before and after that step (P, P + 1)
  std::int64_t cache_after = 0;
  std::int32_t recomputed_rows = 0;  ///< after a preemption
  friend bool operator==(const StepFacts&, const StepFacts&) = default;
};

struct HandoffFacts {
  std::string transport;
  std::int64_t units = 0;  ///< that were sent
  std::int64_t bytes = 0;
  std::int64_t held_units = 0;  ///< that the decode worker held already
  Duration exposed{};           ///< token 0 sampled → Accepted received
  Duration answered{};          ///< of it, Commit sent → Accepted received
  Duration total{};             ///< first offer → Accepted received
  Duration first_unit_sent{};   ///< from the start of prefill to the first send of layer 0
  Duration
      last_layer_computed{};  ///< from the start of prefill to the end of that chunk's last layer
  friend bool operator==(const HandoffFacts&, const HandoffFacts&) = default;
};

}  // namespace baton::protocol
