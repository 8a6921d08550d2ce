#include "control.h"

#include <algorithm>
#include <fstream>
#include <utility>

#include <unistd.h>

#include "baton/base/log.h"
#include "baton/protocol/codec.h"

namespace baton::worker {

using protocol::Role;

namespace {

constexpr Duration report_time = std::chrono::milliseconds(500);
constexpr Duration inventory_time = std::chrono::seconds(5);
constexpr Duration connect_deadline = std::chrono::seconds(2);
constexpr Duration hello_deadline = std::chrono::seconds(5);
constexpr Duration first_back_off = std::chrono::milliseconds(50);
constexpr Duration longest_back_off = std::chrono::seconds(2);
constexpr std::size_t bundle_part_bytes = 256 * 1024;
// A second live process with a node's name is refused; one that has been silent this long is dead.
constexpr Duration alive_time = std::chrono::milliseconds(1500);

}  // namespace

std::string host_identity() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  char space[64] = {};
  const ssize_t length = readlink("/proc/self/ns/net", space, sizeof(space) - 1);
  return boot + "/" + std::string(space, static_cast<std::size_t>(std::max<ssize_t>(0, length))) +
         "/" + std::to_string(getuid());
}

Control::Control(net::EventLoop& loop, Identity identity, Probe& probe, Clock clock)
    : loop_(loop),
      identity_(std::move(identity)),
      probe_(probe),
      clock_(std::move(clock)),
      client_(loop, {}) {}

Control::~Control() = default;

Result<Endpoint> Control::listen(const Endpoint& endpoint) {
  BATON_ASSIGN(server_, net::FrameServer::listen(loop_, endpoint, {}, [this](auto connection) {
                 accepted(std::move(connection));
               }));
  return server_->endpoint();
}

void Control::serve(Serving serving) { serving_ = std::move(serving); }

void Control::stop_serving() {
  serving_.reset();
  for (auto& [id, session] : sessions_) session.connection->close();
  sessions_.clear();
  routers_.clear();
  links_.clear();
  wanted_.clear();
  peers_.clear();
}

void Control::set_draining() {
  draining_ = true;
  for (auto& [id, session] : sessions_) {
    if (session.kind == Kind::router) send_report(session);
  }
}

// ---- sessions ----

Control::Session* Control::find(std::uint64_t id) {
  const auto found = sessions_.find(id);
  return found == sessions_.end() ? nullptr : &found->second;
}

Control::Session* Control::find_link(handoff::LinkId link) {
  const auto found = links_.find(link);
  return found == links_.end() ? nullptr : find(found->second);
}

void Control::accepted(std::shared_ptr<net::FrameConnection> connection) {
  add_session(std::move(connection));
}

Control::Session& Control::add_session(std::shared_ptr<net::FrameConnection> connection) {
  const std::uint64_t id = next_session_++;
  Session& session = sessions_[id];
  session.id = id;
  session.connection = std::move(connection);
  session.heard = clock_();
  session.connection->on_frame([this, id](std::string_view payload) { frame(id, payload); });
  session.connection->on_closed([this, id](const Error& error) { closed(id, error); });
  return session;
}

void Control::close(std::uint64_t id) {
  Session* session = find(id);
  if (session == nullptr) return;
  session->connection->close();
  closed(id, Error(Reason::transport_failed, "closed here"));
}

void Control::closed(std::uint64_t id, const Error& error) {
  const auto found = sessions_.find(id);
  if (found == sessions_.end()) return;
  const Session session = std::move(found->second);
  sessions_.erase(found);
  log_debug("control connection to {} ended: {}", session.node.value(), error.message());
  if (session.kind == Kind::router) {
    const auto router = routers_.find(owner_of(session));
    if (router != routers_.end() && router->second == id) routers_.erase(router);
    wanted_.erase(id);
    refresh_peers(clock_());
  }
  if (session.link != handoff::LinkId()) {
    links_.erase(session.link);
    if (serving_) serving_->driver->post(handoff::DropLink{session.link});
  }
  if (session.kind == Kind::pair_out) {
    const auto peer = peers_.find(session.node);
    if (peer != peers_.end() && peer->second.session == id) peer_failed(peer->second);
  }
}

void Control::send(Session& session, const protocol::Message& message) {
  session.connection->send(protocol::encode({identity_.epoch, session.epoch, message}));
}

void Control::frame(std::uint64_t id, std::string_view payload) {
  Session* session = find(id);
  if (session == nullptr) return;
  const Instant arrived = clock_();
  Result<protocol::Envelope> envelope = protocol::decode(payload);
  if (!envelope) {
    // Once a connection: whoever sends garbage must not write our log as well.
    if (!std::exchange(session->complained_of, true)) {
      log_warning("bad control messages from {}: {}", session->connection->peer(),
                  envelope.error().message());
    }
    probe_.frame_dropped(envelope.error().reason());
    // A kind that only a newer peer knows is dropped; before the hello nothing else is expected.
    if (session->kind == Kind::unknown) close(id);
    return;
  }
  session->heard = arrived;
  if (const auto* message = std::get_if<protocol::Hello>(&envelope->message)) {
    return hello(*session, *message);
  }
  if (session->kind == Kind::unknown) {
    probe_.frame_dropped(Reason::protocol_violation);
    return close(id);
  }
  if (envelope->to != identity_.epoch ||
      (session->epoch != Epoch() && envelope->from != session->epoch)) {
    probe_.frame_dropped(Reason::stale_epoch);
    return;
  }
  if (session->kind == Kind::router) {
    from_router(*session, std::move(envelope->message));
  } else {
    from_pair(*session, std::move(envelope->message));
  }
}

// ---- hello ----

void Control::refuse(Session& session, Reason reason, const std::string& message) {
  log_warning("refused {}: {}", session.connection->peer(), message);
  probe_.frame_dropped(reason);
  send(session, protocol::HelloRefused{reason, message});
  const std::uint64_t id = session.id;
  close(id);
}

void Control::hello(Session& session, const protocol::Hello& message) {
  if (session.kind != Kind::unknown) {
    return refuse(session, Reason::protocol_violation, "a second hello on one connection");
  }
  // Only now: what is known of an established session is the key under which others find it.
  session.node = message.node;
  session.epoch = message.epoch;
  if (message.version != protocol::protocol_version) {
    return refuse(session, Reason::version_mismatch,
                  "protocol version " + std::to_string(message.version) + ", ours is " +
                      std::to_string(protocol::protocol_version));
  }
  if (!serving_) return refuse(session, Reason::no_worker, "the model is being loaded");
  if (message.role == Role::router) return router_hello(session, message);
  if (message.role == Role::prefill && identity_.role == Role::decode) {
    return pair_hello(session, message);
  }
  refuse(session, Reason::protocol_violation, "this role does not connect here");
}

void Control::router_hello(Session& session, const protocol::Hello&) {
  const Instant now = clock_();
  std::vector<std::uint64_t> replaced;
  for (const auto& [owner, id] : routers_) {
    if (owner.node != session.node) continue;
    const Session& other = sessions_.at(id);
    if (owner.epoch != session.epoch && now - other.heard < alive_time) {
      return refuse(session, Reason::duplicate_node,
                    "a live router with the name " + session.node.value() + " is connected");
    }
    replaced.push_back(id);
  }
  for (std::uint64_t id : replaced) close(id);
  session.kind = Kind::router;
  routers_[owner_of(session)] = session.id;
  acknowledge(session, std::nullopt);
  send_report(session);
  if (!serving_->engine->post(OwnerConnected{owner_of(session)})) close(session.id);
}

std::optional<protocol::DataLink> Control::choose_transport(const protocol::Hello& hello) const {
  const bool same_host = hello.host == identity_.host;
  for (const auto& [name, address] : serving_->driver->addresses()) {
    if (std::find(hello.transports.begin(), hello.transports.end(), name) ==
        hello.transports.end()) {
      continue;
    }
    if (name == "shm" && !same_host) continue;
    protocol::DataLink link;
    link.transport = name;
    link.address = address;
    link.token = random_request_id();
    link.secret = random_request_id();
    if (name == "shm") {
      link.why = "both nodes run on one host";
    } else {
      link.why = same_host ? "shm is not enabled on both nodes" : "the nodes run on two hosts";
    }
    return link;
  }
  return std::nullopt;
}

void Control::pair_hello(Session& session, const protocol::Hello& message) {
  if (message.fingerprint != serving_->fingerprint.digest()) {
    return refuse(session, Reason::fingerprint_mismatch,
                  "the caches of " + message.node.value() + " and " + identity_.node.value() +
                      " are not interchangeable");
  }
  std::optional<protocol::DataLink> data = choose_transport(message);
  if (!data) {
    return refuse(session, Reason::transport_failed, "no data transport in common");
  }
  const handoff::LinkId link(next_link_++);
  if (!serving_->driver->post(
          handoff::ExpectLink{link, data->transport, data->token, data->secret})) {
    return refuse(session, Reason::overloaded, "the data transports are behind");
  }
  session.kind = Kind::pair_in;
  session.link = link;
  session.data = *data;
  links_[link] = session.id;
}

void Control::link_expected(handoff::LinkId link) {
  if (Session* session = find_link(link)) {
    log_info("prefill node {} pairs over {}: {}", session->node.value(), session->data.transport,
             session->data.why);
    acknowledge(*session, session->data);
  }
}

void Control::acknowledge(Session& session, std::optional<protocol::DataLink> data) {
  protocol::HelloAck ack;
  ack.role = identity_.role;
  ack.node = identity_.node;
  ack.epoch = identity_.epoch;
  ack.fingerprint = serving_->fingerprint.digest();
  ack.fingerprint_fields = serving_->fingerprint.fields();
  ack.worker = serving_->info;
  ack.data = std::move(data);
  send(session, ack);
}

// ---- routers ----

void Control::from_router(Session& session, protocol::Message message) {
  if (std::holds_alternative<protocol::BundleRequest>(message)) return send_bundle(session);
  if (const auto* peers = std::get_if<protocol::Peers>(&message)) {
    return peers_changed(session, *peers);
  }
  const bool heartbeat = std::holds_alternative<protocol::Heartbeat>(message);
  if (!serving_->engine->post(OwnerMessage{owner_of(session), std::move(message), session.heard})) {
    log_error("the engine's mailbox is full; closing the connection to {}", session.node.value());
    return close(session.id);
  }
  if (heartbeat) send_report(session);
}

void Control::send_report(Session& session) {
  if (!serving_) return;
  send(session, protocol::Report{serving_->engine->status().load, draining_});
}

void Control::send_bundle(Session& session) {
  const std::string& bundle = serving_->bundle;
  const auto count =
      static_cast<std::uint32_t>((bundle.size() + bundle_part_bytes - 1) / bundle_part_bytes);
  for (std::uint32_t index = 0; index < count; ++index) {
    send(session, protocol::BundlePart{
                      index, count, bundle.substr(index * bundle_part_bytes, bundle_part_bytes)});
  }
}

void Control::deliver(std::vector<std::variant<ToOwner, ToPair>> effects) {
  for (auto& effect : effects) {
    if (auto* to_pair = std::get_if<ToPair>(&effect)) {
      send_to_pair(to_pair->link, to_pair->message);
      continue;
    }
    ToOwner& to_owner = std::get<ToOwner>(effect);
    // Without a connection it is dropped: the core repeats what matters when the owner is back.
    const auto router = routers_.find(to_owner.owner);
    if (router != routers_.end()) send(sessions_.at(router->second), to_owner.message);
  }
}

// ---- pairs ----

void Control::send_to_pair(handoff::LinkId link, const protocol::Message& message) {
  if (Session* session = find_link(link)) send(*session, message);
}

void Control::link_lost(handoff::LinkId link, const Error& error) {
  Session* session = find_link(link);
  if (session == nullptr) return;
  log_warning("data link to {} ended: {}", session->node.value(), error.message());
  close(session->id);
}

void Control::from_pair(Session& session, protocol::Message message) {
  if (session.kind == Kind::pair_out) {
    if (const auto* ack = std::get_if<protocol::HelloAck>(&message)) {
      return hello_ack(session, *ack);
    }
    if (const auto* refused = std::get_if<protocol::HelloRefused>(&message)) {
      log_warning("decode node {} refused to pair: {}", session.node.value(), refused->message);
      return close(session.id);
    }
  }
  if (session.link == handoff::LinkId()) return;
  if (!serving_->driver->post(
          handoff::PairMessage{session.link, std::move(message), session.heard})) {
    log_error("too many messages wait; closing the connection to {}", session.node.value());
    close(session.id);
  }
}

void Control::hello_ack(Session& session, const protocol::HelloAck& message) {
  const auto peer = peers_.find(session.node);
  const bool wanted = peer != peers_.end() && peer->second.session == session.id;
  if (!wanted || message.node != session.node || message.epoch != peer->second.peer.epoch ||
      !message.data || session.link != handoff::LinkId()) {
    return close(session.id);
  }
  if (message.fingerprint != serving_->fingerprint.digest()) {
    log_warning("decode node {} has another fingerprint: {}", session.node.value(),
                protocol::difference(serving_->fingerprint.fields(), message.fingerprint_fields));
    return close(session.id);
  }
  const handoff::LinkId link(next_link_++);
  if (!serving_->driver->post(
          handoff::ConnectLink{link, message.node, message.epoch, *message.data})) {
    log_error("the data transports are behind; not pairing with {}", session.node.value());
    return close(session.id);
  }
  peer->second.back_off = Duration{};
  session.link = link;
  links_[link] = session.id;
  session.data = *message.data;
  log_info("pairs with decode node {} over {}: {}", session.node.value(), session.data.transport,
           session.data.why);
}

std::vector<Control::Pair> Control::pairs() const {
  std::vector<Pair> out;
  for (const auto& [link, id] : links_) {
    const auto session = sessions_.find(id);
    if (session == sessions_.end()) continue;
    const protocol::DataLink& data = session->second.data;
    out.push_back({session->second.node, data.transport, data.why});
  }
  return out;
}

void Control::peers_changed(Session& session, const protocol::Peers& message) {
  if (identity_.role != Role::prefill) return;
  wanted_[session.id] = message.decode;
  refresh_peers(clock_());
}

/// Connects to what some router wants and drops what none wants any more.
void Control::refresh_peers(Instant now) {
  if (!serving_) return;
  std::map<NodeId, protocol::Peers::Peer> wanted;
  for (const auto& [session, peers] : wanted_) {
    for (const auto& peer : peers) wanted[peer.node] = peer;
  }
  std::vector<std::uint64_t> to_close;
  for (auto it = peers_.begin(); it != peers_.end();) {
    const auto found = wanted.find(it->first);
    if (found != wanted.end() && found->second == it->second.peer) {
      ++it;
      continue;
    }
    if (it->second.session != 0) to_close.push_back(it->second.session);
    it = peers_.erase(it);
  }
  for (std::uint64_t id : to_close) close(id);
  for (const auto& [node, peer] : wanted) {
    if (!peers_.contains(node)) peers_[node].peer = peer;
  }
  for (auto& [node, peer] : peers_) {
    if (peer.session == 0 && !peer.connecting && now >= peer.retry_at) connect(peer);
  }
}

void Control::connect(Peer& peer) {
  const Result<Endpoint> endpoint = parse_endpoint(peer.peer.control_address);
  if (!endpoint) return peer_failed(peer);
  peer.connecting = true;
  const NodeId node = peer.peer.node;
  client_.connect(*endpoint, connect_deadline,
                  [this, node](auto result) { connected(node, std::move(result)); });
}

void Control::connected(const NodeId& node, Result<std::shared_ptr<net::FrameConnection>> result) {
  const auto found = peers_.find(node);
  if (found == peers_.end()) {
    if (result) (*result)->close();
    return;
  }
  Peer& peer = found->second;
  peer.connecting = false;
  if (!result) {
    log_warning("cannot reach decode node {} at {}: {}", node.value(), peer.peer.control_address,
                result.error().message());
    return peer_failed(peer);
  }
  Session& session = add_session(std::move(*result));
  session.kind = Kind::pair_out;
  session.node = node;
  session.epoch = peer.peer.epoch;
  peer.session = session.id;
  protocol::Hello hello;
  hello.role = identity_.role;
  hello.node = identity_.node;
  hello.epoch = identity_.epoch;
  hello.fingerprint = serving_->fingerprint.digest();
  hello.host = identity_.host;
  for (const auto& [name, address] : serving_->driver->addresses()) {
    hello.transports.push_back(name);
  }
  send(session, hello);
}

void Control::peer_failed(Peer& peer) {
  peer.session = 0;
  peer.back_off = std::clamp(2 * peer.back_off, first_back_off, longest_back_off);
  peer.retry_at = clock_() + peer.back_off;
}

/// A decode node that accepted the connection and says nothing is tried again.
void Control::close_unanswered(Instant now) {
  std::vector<std::uint64_t> unanswered;
  for (const auto& [id, session] : sessions_) {
    const bool waits = session.kind == Kind::pair_out && session.link == handoff::LinkId();
    if (waits && now - session.heard > hello_deadline) unanswered.push_back(id);
  }
  for (std::uint64_t id : unanswered) close(id);
}

void Control::tick(Instant now) {
  if (!serving_) return;
  close_unanswered(now);
  refresh_peers(now);
  if (now - last_report_ >= report_time) {
    last_report_ = now;
    for (auto& [id, session] : sessions_) {
      if (session.kind == Kind::router) send_report(session);
    }
  }
  if (now - last_inventory_ >= inventory_time) {
    last_inventory_ = now;
    SendInventories to;
    for (const auto& [owner, session] : routers_) to.owners.push_back(owner);
    if (!serving_->engine->post(std::move(to))) log_warning("the engine's mailbox is full");
  }
}

}  // namespace baton::worker
