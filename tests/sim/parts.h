// What a simulated world is made of: routers, workers, data messages and clients.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "model.h"

namespace baton::sim {

using namespace std::chrono_literals;  // NOLINT: durations in every file of the world
using handoff::LinkId;
using handoff::SourceId;
using handoff::TransferId;
using protocol::Role;

struct Router {
  NodeId node;
  Epoch epoch{1};
  bool alive = true;
  std::unique_ptr<router::HandoffTable> table;
};

/// A worker's view of its connection to one router.
struct RouterLink {
  bool connected = false;
  Epoch known;               ///< the router's life that connected last
  bool silent = false;       ///< taken for dead by the router, the connection still stands
  std::uint64_t number = 0;  ///< counts connections; messages of an old one are lost
};

struct Worker {
  Role role = Role::prefill;
  std::string name;
  Epoch epoch;
  bool alive = true;
  Instant stopped_until;
  Instant stopped_at;
  std::unique_ptr<worker::NodeCore> core;
  std::unique_ptr<handoff::Sender> sender;
  std::unique_ptr<handoff::Receiver> receiver;
  std::deque<handoff::EngineCommand> commands;  ///< from the engine's to the transport's thread
  Memory memory;
  bool stepping = false;
  /// A block's ticket changes whenever the block was free in between: bytes may move only between
  /// blocks that were held all the time.
  std::map<std::pair<int, std::int32_t>, std::uint64_t> tickets;
  std::map<std::string, RouterLink> routers;
  std::map<std::string, LinkId> links;  ///< prefill: by decode node; decode: by prefill node
  std::map<RequestId, Attempt> newest;  ///< what routers asked for last
  std::map<RequestId, Attempt> gone;    ///< what routers have cancelled
};

/// A data message on its way.
struct Transfer {
  std::string sender;
  Epoch sender_epoch;
  std::string receiver;
  Epoch epoch;
  TransferId send;
  std::vector<handoff::Piece> from;
  std::vector<std::uint64_t> from_tickets;  ///< of the blocks in `from`, see Worker
  protocol::UnitHeader header;
  bool flipped = false;
};

struct Client {
  std::string router;
  std::vector<TokenId> prompt;
  std::vector<TokenId> expected;
  std::vector<TokenId> got;
  Instant submitted;
  int drop_after = -1;  ///< messages about it until the client leaves; negative: it stays
  bool ended = false;
  bool dropped = false;
};

}  // namespace baton::sim
