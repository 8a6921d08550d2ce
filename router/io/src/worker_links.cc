#include "worker_links.h"

#include <algorithm>

#include <boost/asio/ip/address.hpp>

#include "baton/base/log.h"
#include "baton/protocol/codec.h"

namespace baton::router {

using protocol::Role;

namespace {

constexpr Duration heartbeat_time = std::chrono::milliseconds(500);
constexpr Duration silent_time = 3 * heartbeat_time;
constexpr Duration longest_turn = std::chrono::milliseconds(100);
constexpr Duration connect_deadline = std::chrono::seconds(2);
constexpr Duration first_back_off = std::chrono::milliseconds(50);
constexpr Duration longest_back_off = std::chrono::seconds(2);
constexpr Duration resolve_time = std::chrono::seconds(5);
constexpr Duration hello_time = std::chrono::seconds(5);
constexpr Duration bundle_time = std::chrono::seconds(10);
constexpr std::uint32_t max_bundle_parts = 1024;

bool is_literal(const std::string& host) {
  boost::system::error_code error;
  boost::asio::ip::make_address(host, error);
  return !error;
}

const char* role_name(Role role) { return role == Role::prefill ? "prefill" : "decode"; }

}  // namespace

WorkerLinks::WorkerLinks(net::EventLoop& loop, WorkerLinksConfig config, WorkerEvents& events)
    : config_(std::move(config)),
      events_(events),
      client_(loop, {}),
      resolver_(loop.context()),
      listening_(longest_turn) {
  for (Role role : {Role::prefill, Role::decode}) {
    for (const Endpoint& endpoint : role == Role::prefill ? config_.prefill : config_.decode) {
      if (is_literal(endpoint.host)) {
        add(role, endpoint, std::nullopt);
      } else {
        names_.push_back({endpoint, role, false, Instant()});
      }
    }
  }
}

WorkerLinks::~WorkerLinks() {
  *alive_ = false;
  for (auto& [key, link] : links_) {
    if (link.connection) link.connection->close();
  }
}

WorkerLinks::LinkKey WorkerLinks::key_of(Role role, const Endpoint& endpoint) {
  return std::string(role_name(role)) + " " + endpoint.to_string();
}

void WorkerLinks::add(Role role, const Endpoint& endpoint, std::optional<std::size_t> name) {
  Link& link = links_[key_of(role, endpoint)];
  link.endpoint = endpoint;
  link.role = role;
  link.name = name;
}

// ---- connecting ----

void WorkerLinks::connect(const LinkKey& key) {
  Link& link = links_.at(key);
  link.connecting = true;
  client_.connect(link.endpoint, connect_deadline,
                  [this, key](auto result) { connected(key, std::move(result)); });
}

void WorkerLinks::connected(const LinkKey& key,
                            Result<std::shared_ptr<net::FrameConnection>> result) {
  const auto found = links_.find(key);
  if (found == links_.end()) {
    if (result) (*result)->close();
    return;
  }
  Link& link = found->second;
  link.connecting = false;
  if (!result) return failed(key, result.error());
  link.connection = std::move(*result);
  link.acknowledged = false;
  link.heard = listening_.now();
  link.connection->on_frame([this, key](std::string_view payload) { frame(key, payload); });
  link.connection->on_closed([this, key](const Error& error) { failed(key, error); });
  link.worker.epoch = Epoch();
  protocol::Hello hello;
  hello.role = Role::router;
  hello.node = config_.node;
  hello.epoch = config_.epoch;
  write(link, hello);
}

void WorkerLinks::failed(const LinkKey& key, const Error& error) {
  const auto found = links_.find(key);
  if (found == links_.end()) return;
  Link& link = found->second;
  log_debug("{}: {}", key, error.message());
  drop(link);
  link.back_off = std::clamp(2 * link.back_off, first_back_off, longest_back_off);
  link.retry_at = monotonic_now() + link.back_off;
}

void WorkerLinks::drop(Link& link) {
  if (link.connection) link.connection->close();
  link.connection.reset();
  link.acknowledged = false;
  mark(link, false);
}

void WorkerLinks::mark(Link& link, bool up) {
  if (link.up == up) return;
  link.up = up;
  if (up) {
    log_info("{} node {} is up", role_name(link.role), link.worker.node.value());
    events_.worker_up(link.worker);
  } else {
    log_warning("{} node {} is down", role_name(link.role), link.worker.node.value());
    events_.worker_down({link.worker.node, link.worker.epoch});
  }
  if (link.role == Role::decode) send_peers();
}

// ---- frames ----

void WorkerLinks::write(Link& link, const protocol::Message& message) {
  if (link.connection) {
    link.connection->send(protocol::encode({config_.epoch, link.worker.epoch, message}));
  }
}

WorkerLinks::Link* WorkerLinks::find(const WorkerRef& worker) {
  for (auto& [key, link] : links_) {
    if (link.acknowledged && link.worker.node == worker.node && link.worker.epoch == worker.epoch) {
      return &link;
    }
  }
  return nullptr;
}

void WorkerLinks::send(const WorkerRef& worker, const protocol::Message& message) {
  if (Link* link = find(worker)) write(*link, message);
}

void WorkerLinks::frame(const LinkKey& key, std::string_view payload) {
  const auto found = links_.find(key);
  if (found == links_.end()) return;
  Link& link = found->second;
  Result<protocol::Envelope> envelope = protocol::decode(payload);
  if (!envelope) {
    events_.dropped(envelope.error().reason());
    log_warning("{}: {}", key, envelope.error().message());
    return;
  }
  link.heard = listening_.now();
  if (const auto* refused = std::get_if<protocol::HelloRefused>(&envelope->message)) {
    if (refused->reason != Reason::no_worker) log_warning("{}: {}", key, refused->message);
    return failed(key, Error(refused->reason, refused->message));
  }
  if (const auto* ack = std::get_if<protocol::HelloAck>(&envelope->message)) {
    return acknowledged(key, link, *ack);
  }
  if (!link.acknowledged || envelope->from != link.worker.epoch || envelope->to != config_.epoch) {
    return events_.dropped(Reason::stale_epoch);
  }
  mark(link, true);  // it had been silent
  if (const auto* part = std::get_if<protocol::BundlePart>(&envelope->message)) {
    return bundle_part(link, *part);
  }
  events_.message({link.worker.node, link.worker.epoch}, std::move(envelope->message));
}

void WorkerLinks::acknowledged(const LinkKey& key, Link& link, const protocol::HelloAck& ack) {
  if (link.acknowledged || ack.role != link.role) {
    events_.dropped(Reason::protocol_violation);
    log_warning("{}: not a {} node", key, role_name(link.role));
    return failed(key, Error(Reason::protocol_violation, "unexpected role"));
  }
  if (ack.version != protocol::protocol_version) {
    return failed(key, Error(Reason::version_mismatch, "another protocol version"));
  }
  if (is_taken(key, link, ack)) return;
  link.acknowledged = true;
  link.back_off = Duration{};
  link.worker.node = ack.node;
  link.worker.role = ack.role;
  link.worker.epoch = ack.epoch;
  link.worker.fingerprint = ack.fingerprint;
  link.worker.info = ack.worker;
  ask_for_bundle(link, monotonic_now());
  mark(link, true);
  if (link.role == Role::prefill) send_peers();
}

/// True when another address has led to a live worker of that name: the newcomer is let go. A name
/// belongs to one process, and a process talks to us on one connection, the newest.
bool WorkerLinks::is_taken(const LinkKey& key, Link& link, const protocol::HelloAck& ack) {
  link.twin.reset();
  for (const auto& [other_key, other] : links_) {
    if (&other == &link || other.worker.node != ack.node) continue;
    const bool same_life = other.worker.epoch == ack.epoch;
    // Our hello has made the process close the other connection, which we may know already.
    if (!other.up && !(same_life && !silent(other, silent_time))) continue;
    if (same_life) {
      link.twin = WorkerRef{ack.node, ack.epoch};
      log_warning("{} and {} are one process; the first is not used", key, other_key);
    } else {
      events_.dropped(Reason::duplicate_node);
      log_warning("{}: a live worker with the name {} is connected", key, ack.node.value());
    }
    failed(key, Error(Reason::duplicate_node, "the name is taken"));
    link.retry_at = monotonic_now() + longest_back_off;
    return true;
  }
  return false;
}

void WorkerLinks::ask_for_bundle(Link& link, Instant now) {
  if (have_bundle_) return;
  link.bundle_parts.clear();
  link.bundle_asked = now;
  write(link, protocol::BundleRequest{});
}

void WorkerLinks::bundle_part(Link& link, const protocol::BundlePart& part) {
  if (have_bundle_ || part.count > max_bundle_parts || part.index != link.bundle_parts.size()) {
    return;
  }
  link.bundle_parts.push_back(part.bytes);
  if (link.bundle_parts.size() < part.count) return;
  std::string bytes;
  for (const std::string& each : link.bundle_parts) bytes += each;
  link.bundle_parts.clear();
  if (protocol::sha256(bytes).to_string() != link.worker.info.bundle_digest) {
    log_warning("the tokenizer bundle of {} does not have its digest", link.worker.node.value());
    events_.dropped(Reason::digest_mismatch);
    return;  // it is asked for again
  }
  have_bundle_ = true;
  for (auto& [key, each] : links_) each.bundle_parts = {};
  events_.bundle(std::move(bytes));
}

void WorkerLinks::send_peers() {
  protocol::Peers peers;
  for (const auto& [key, link] : links_) {
    if (link.role == Role::decode && link.acknowledged) {
      peers.decode.push_back(
          {link.worker.node, link.worker.epoch, link.worker.info.control_address});
    }
  }
  for (auto& [key, link] : links_) {
    if (link.role == Role::prefill && link.acknowledged) write(link, peers);
  }
}

// ---- time ----

bool WorkerLinks::silent(const Link& link, Duration time) const {
  return listening_.now() - link.heard > time;
}

void WorkerLinks::tick(Instant now) {
  listening_.turn(now);
  const bool heartbeat = now - last_heartbeat_ >= heartbeat_time;
  if (heartbeat) last_heartbeat_ = now;
  std::vector<LinkKey> to_connect;
  std::vector<LinkKey> unanswered;
  for (auto& [key, link] : links_) {
    if (!link.connection && !link.connecting && now >= link.retry_at) {
      if (link.twin && find(*link.twin) != nullptr) {
        link.retry_at = now + longest_back_off;
      } else {
        to_connect.push_back(key);
      }
    }
    if (!link.connection) continue;
    if (!link.acknowledged && silent(link, hello_time)) unanswered.push_back(key);
    if (link.up && silent(link, silent_time)) mark(link, false);
    if (!link.acknowledged) continue;
    if (now - link.bundle_asked > bundle_time) ask_for_bundle(link, now);
    if (heartbeat) {
      write(link,
            protocol::Heartbeat{
                std::chrono::duration_cast<std::chrono::milliseconds>(config_.lease).count()});
    }
  }
  for (const LinkKey& key : unanswered) {
    failed(key, Error(Reason::deadline_exceeded, "the hello was not answered"));
  }
  for (const LinkKey& key : to_connect) connect(key);
  for (std::size_t i = 0; i < names_.size(); ++i) {
    if (!names_[i].resolving && now >= names_[i].next_at) resolve(i, now);
  }
}

void WorkerLinks::resolve(std::size_t index, Instant now) {
  Name& name = names_[index];
  name.resolving = true;
  name.next_at = now + resolve_time;
  resolver_.async_resolve(
      name.endpoint.host, std::to_string(name.endpoint.port),
      [this, index, alive = alive_](const boost::system::error_code& error, auto results) {
        if (!*alive) return;
        names_[index].resolving = false;
        if (error) {
          log_debug("{}: {}", names_[index].endpoint.host, error.message());
          return;  // the last known members stay (RST-12)
        }
        std::vector<Endpoint> addresses;
        for (const auto& entry : results) {
          addresses.push_back({entry.endpoint().address().to_string(), entry.endpoint().port()});
        }
        resolved(index, addresses);
      });
}

void WorkerLinks::resolved(std::size_t index, const std::vector<Endpoint>& addresses) {
  const Role role = names_[index].role;
  for (const Endpoint& address : addresses) {
    if (!links_.contains(key_of(role, address))) add(role, address, index);
  }
  // An address that the name lost is forgotten once its connection is gone as well.
  std::erase_if(links_, [&](const auto& entry) {
    const Link& link = entry.second;
    const bool listed =
        std::find(addresses.begin(), addresses.end(), link.endpoint) != addresses.end();
    return link.name == index && !listed && !link.connection && !link.connecting;
  });
}

}  // namespace baton::router
