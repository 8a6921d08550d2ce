// A seeded world around the product's real cores: router tables, node cores, senders and receivers.
// The network, the clock, the forward pass and the memory are simulated.
//
// The forward pass is a hash: the token after some ids is a hash of them, and the cache of a
// position is a hash of all ids up to it. A decode step checks every cached position it would read,
// so a wrong, stale or torn unit is found at the moment it would be used (P2).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "baton/base/reason.h"
#include "baton/base/time.h"

namespace baton::sim {

/// A bug of a product that is not ours; the world must find it. Each is done by the world around
/// the cores, which stay as they are.
enum class Plant : std::uint8_t {
  nothing,
  skip_verification,    ///< the receiver gets the digests that the header promises
  release_early,        ///< the sender's blocks are freed while sends are open
  skip_quarantine,      ///< a grant's blocks are freed while receives into them are open
  write_unchecked,      ///< what the receiver refuses is written all the same
  skip_repeats,         ///< a router repeats nothing on a new connection
  skip_worker_repeats,  ///< a worker repeats nothing on a new connection
  decode_before_end,    ///< decoding starts at P - 1
  forget_tombstones,    ///< ended attempts leave nothing behind
  accept_lower_legs,    ///< a late message counts for the current attempt
  index_unfinished,     ///< blocks enter the prefix index when their step begins
  trust_held,           ///< held units are believed to be what their key says
  keep_wrong_held,      ///< held units that differ stay in the prefix index
  send_held,            ///< what a grant shares with others is received once more
};

struct Options {
  std::uint64_t seed = 1;
  int routers = 1;
  int prefill_nodes = 2;
  int decode_nodes = 2;
  int requests = 40;
  int prefill_blocks = 64;
  int decode_blocks = 48;
  int window = 24;                ///< of the second layer group
  int prefill_window_blocks = 0;  ///< of that group; 0: as many as of the first
  int decode_window_blocks = 0;
  std::int64_t prefill_suffix_tokens = 0;  ///< that decode nodes compute themselves
  double fault_seconds = 3;                ///< faults stop after this
  double kills_per_second = 0;             ///< of worker processes
  double longest_absence_seconds = 0.8;    ///< of a killed worker
  double router_kills_per_second = 0;
  double cuts_per_second = 0;   ///< of connections
  double stops_per_second = 0;  ///< a worker does nothing for a while
  double longest_stop_seconds = 1.5;
  double flip_chance = 0;             ///< of each data message
  double wrong_held_chance = 0;       ///< of each block that a decode node computed and holds
  double cancel_chance = 0;           ///< of each request, at a random moment
  double drop_chance = 0;             ///< of each request, after a random message about it
  double duplicate_chance = 0;        ///< of each control message: it comes again, much later
  double one_token_chance = 0;        ///< of each request: it asks for one token
  double shared_prompt_chance = 0.5;  ///< of each request: it begins as others do
  Duration thread_latency{};          ///< most time between a worker's engine and transport threads
  bool log = false;                   ///< print every message and fault
  Plant plant = Plant::nothing;
};

struct Outcome {
  int finished = 0;
  int failed = 0;
  int dropped = 0;
  int attempts = 0;
  int kills = 0;
  int router_kills = 0;
  int cuts = 0;
  int flips = 0;
  int wrong_held = 0;
  int stops = 0;
  int duplicates = 0;
  int preemptions = 0;
  int refused_units = 0;
  int leases_expired = 0;
  int orphans_freed = 0;
  std::int64_t prefix_hit_tokens = 0;
  std::int64_t held_units = 0;  ///< by grants, a layer
  std::int64_t local_rows = 0;  ///< of prompts, computed by decode nodes
  double ended_at_s = 0;
  double longest_request_s = 0;
  std::uint64_t trace = 0;  ///< hash of everything that happened, in order
  std::vector<std::string> violations;
  std::map<Reason, int> failures;         ///< of requests, by reason
  std::map<Reason, int> attempt_reasons;  ///< of new attempts
  std::set<std::string> dropped_after;    ///< messages after which a client left
};

class Simulation;

class World {
 public:
  explicit World(Options options);
  ~World();
  /// Runs to the end: all requests ended and the workers idle, or ten virtual minutes.
  Outcome run();

 private:
  std::unique_ptr<Simulation> simulation_;
};

}  // namespace baton::sim
