// The control thread's connections of a worker: routers and prefill peers that connect here, and
// (on a prefill node) the decode nodes that this node connects to. Everything runs on the loop.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "baton/handoff/driver.h"
#include "baton/net/io/frame_link.h"
#include "baton/protocol/fingerprint.h"
#include "baton/protocol/messages.h"

#include "engine_thread.h"
#include "probe.h"

namespace baton::worker {

struct Identity {
  protocol::Role role = protocol::Role::prefill;
  NodeId node;
  Epoch epoch;
  std::string host;  ///< equal for processes that can share memory, see host_identity()
};

/// Running system, network namespace and user: what processes that share memory have in common.
std::string host_identity();

/// What is known once the model is loaded.
struct Serving {
  protocol::Fingerprint fingerprint;
  protocol::WorkerInfo info;
  std::string bundle;
  EngineThread* engine = nullptr;
  handoff::Driver* driver = nullptr;
};

class Control {
 public:
  using Clock = std::function<Instant()>;  ///< a test's own

  Control(net::EventLoop& loop, Identity identity, Probe& probe, Clock clock = monotonic_now);
  ~Control();

  Result<Endpoint> listen(const Endpoint& endpoint);
  /// From now on hellos are accepted; before, peers are told to come back.
  void serve(Serving serving);
  void stop_serving();
  void set_draining();

  // Effects of the engine and the driver, on the loop thread.
  void deliver(std::vector<std::variant<ToOwner, ToPair>> effects);
  void send_to_pair(handoff::LinkId link, const protocol::Message& message);
  void link_expected(handoff::LinkId link);
  void link_lost(handoff::LinkId link, const Error& error);

  /// The data links to peers that are set up, for people to look at.
  struct Pair {
    NodeId node;
    std::string transport;
    std::string why;  ///< why this transport and no other
  };
  std::vector<Pair> pairs() const;

  /// Every half second: reports; every five: inventories; reconnects what is due.
  void tick(Instant now);

 private:
  enum class Kind : std::uint8_t { unknown, router, pair_in, pair_out };
  struct Session {
    std::shared_ptr<net::FrameConnection> connection;
    Kind kind = Kind::unknown;
    NodeId node;
    Epoch epoch;
    handoff::LinkId link;     ///< pairs
    protocol::DataLink data;  ///< pairs; pair_in: announced once it is expected
    std::uint64_t id = 0;
    Instant heard;               ///< when the last frame was read
    bool complained_of = false;  ///< a message of it could not be read; logged once
  };
  /// A decode node that some router wants this prefill node to be connected to.
  struct Peer {
    protocol::Peers::Peer peer;
    std::uint64_t session = 0;  ///< 0: none
    bool connecting = false;
    Instant retry_at;
    Duration back_off{};
  };

  void accepted(std::shared_ptr<net::FrameConnection> connection);
  Session& add_session(std::shared_ptr<net::FrameConnection> connection);
  void frame(std::uint64_t session, std::string_view payload);
  void closed(std::uint64_t session, const Error& error);
  void close(std::uint64_t session);

  void hello(Session& session, const protocol::Hello& message);
  void router_hello(Session& session, const protocol::Hello& message);
  void pair_hello(Session& session, const protocol::Hello& message);
  void hello_ack(Session& session, const protocol::HelloAck& message);
  void refuse(Session& session, Reason reason, const std::string& message);
  void acknowledge(Session& session, std::optional<protocol::DataLink> data);
  void from_router(Session& session, protocol::Message message);
  void from_pair(Session& session, protocol::Message message);
  void send_bundle(Session& session);
  void send_report(Session& session);
  std::optional<protocol::DataLink> choose_transport(const protocol::Hello& hello) const;

  void peers_changed(Session& session, const protocol::Peers& message);
  void refresh_peers(Instant now);
  void close_unanswered(Instant now);
  void connect(Peer& peer);
  void connected(const NodeId& node, Result<std::shared_ptr<net::FrameConnection>> result);
  void peer_failed(Peer& peer);

  void send(Session& session, const protocol::Message& message);
  Session* find(std::uint64_t id);
  Session* find_link(handoff::LinkId link);
  handoff::OwnerRef owner_of(const Session& session) const { return {session.node, session.epoch}; }

  net::EventLoop& loop_;
  Identity identity_;
  Probe& probe_;
  Clock clock_;
  std::unique_ptr<net::FrameServer> server_;
  net::FrameClient client_;
  std::optional<Serving> serving_;
  std::map<std::uint64_t, Session> sessions_;
  std::map<handoff::OwnerRef, std::uint64_t> routers_;
  std::map<handoff::LinkId, std::uint64_t> links_;
  std::map<std::uint64_t, std::vector<protocol::Peers::Peer>> wanted_;  ///< by router session
  std::map<NodeId, Peer> peers_;
  std::uint64_t next_session_ = 1;
  std::uint64_t next_link_ = 1;
  bool draining_ = false;
  Instant last_report_;
  Instant last_inventory_;
};

}  // namespace baton::worker
