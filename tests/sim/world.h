// A seeded world around the product's real cores: router table, node cores, sender and receiver.
// The network, the clock, the forward pass and the memory are simulated.
//
// The forward pass is a hash: the token after some ids is a hash of them, and the cache of a
// position is a hash of all ids up to it. A decode step checks every cached position it would read,
// so a wrong, stale or torn unit is found at the moment it would be used (P2).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "baton/decode_node/core/decode_core.h"
#include "baton/handoff/core/receiver.h"
#include "baton/handoff/core/sender.h"
#include "baton/prefill_node/core/prefill_core.h"
#include "baton/router/core/handoff_table.h"

namespace baton::sim {

struct Options {
  std::uint64_t seed = 1;
  int prefill_nodes = 2;
  int decode_nodes = 2;
  int requests = 40;
  int prefill_blocks = 64;
  int decode_blocks = 48;
  double fault_seconds = 3;     ///< faults stop after this
  double kills_per_second = 0;  ///< of worker processes
  double cuts_per_second = 0;   ///< of connections
  double stops_per_second = 0;  ///< a worker does nothing for a while
  double flip_chance = 0;       ///< of each data message
  double cancel_chance = 0;     ///< of each request, at a random moment
  bool log = false;             ///< print every message and fault
  /// Planted bugs that the world must find.
  bool skip_verification = false;  ///< the receiver gets the digests that the header promises
  bool release_early = false;      ///< the sender's blocks are freed while sends are open
};

struct Outcome {
  int finished = 0;
  int failed = 0;
  int dropped = 0;
  int attempts = 0;
  int kills = 0;
  int cuts = 0;
  int flips = 0;
  int stops = 0;
  int preemptions = 0;
  int refused_units = 0;
  double ended_at_s = 0;
  std::uint64_t trace = 0;  ///< hash of everything that happened, in order
  std::vector<std::string> violations;
  std::map<Reason, int> failures;         ///< of requests, by reason
  std::map<Reason, int> attempt_reasons;  ///< of new attempts
};

class World {
 public:
  explicit World(Options options);
  ~World();
  /// Runs to the end: all requests ended and the workers idle, or ten virtual minutes.
  Outcome run();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace baton::sim
