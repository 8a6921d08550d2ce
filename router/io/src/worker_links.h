// The router's connections to workers: finding them, keeping one connection to each, noticing when
// one is gone or silent. On the loop thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <boost/asio/ip/tcp.hpp>

#include "baton/base/endpoint.h"
#include "baton/net/io/frame_link.h"
#include "baton/protocol/fingerprint.h"
#include "baton/protocol/messages.h"
#include "baton/router/core/workers.h"

#include "listening_clock.h"

namespace baton::router {

class WorkerEvents {
 public:
  virtual ~WorkerEvents() = default;
  virtual void worker_up(Worker worker) = 0;
  virtual void worker_down(const WorkerRef& worker) = 0;
  virtual void message(const WorkerRef& from, protocol::Message message) = 0;
  /// The tokenizer bundle of the first worker that was reached, checked against its digest.
  virtual void bundle(std::string bytes) = 0;
  virtual void dropped(Reason reason) = 0;
};

struct WorkerLinksConfig {
  NodeId node;
  Epoch epoch;
  std::vector<Endpoint> prefill;  ///< addresses, or names that stand for several (DNS)
  std::vector<Endpoint> decode;
  Duration lease = std::chrono::seconds(5);
};

class WorkerLinks {
 public:
  WorkerLinks(net::EventLoop& loop, WorkerLinksConfig config, WorkerEvents& events);
  ~WorkerLinks();

  void send(const WorkerRef& worker, const protocol::Message& message);
  /// Every 50 ms or so: heartbeats, silent workers, reconnecting, resolving.
  void tick(Instant now);

 private:
  /// One address and the connection to whoever lives there.
  struct Link {
    Endpoint endpoint;
    protocol::Role role = protocol::Role::prefill;
    std::optional<std::size_t> name;  ///< that it came from: dropped when the name lost it
    std::shared_ptr<net::FrameConnection> connection;
    bool connecting = false;
    bool acknowledged = false;
    bool up = false;  ///< reported to the table
    std::vector<std::string> bundle_parts;
    Instant bundle_asked;
    Worker worker;
    Instant heard;  ///< on the listening clock
    Instant retry_at;
    Duration back_off{};
    std::optional<WorkerRef> twin;  ///< who lives here is reached at another address already
  };
  struct Name {
    Endpoint endpoint;
    protocol::Role role = protocol::Role::prefill;
    bool resolving = false;
    Instant next_at;
  };
  using LinkKey = std::string;  ///< role and address

  static LinkKey key_of(protocol::Role role, const Endpoint& endpoint);
  void add(protocol::Role role, const Endpoint& endpoint, std::optional<std::size_t> name);
  void connect(const LinkKey& key);
  void connected(const LinkKey& key, Result<std::shared_ptr<net::FrameConnection>> result);
  void frame(const LinkKey& key, std::string_view payload);
  void acknowledged(const LinkKey& key, Link& link, const protocol::HelloAck& ack);
  bool is_taken(const LinkKey& key, Link& link, const protocol::HelloAck& ack);
  void ask_for_bundle(Link& link, Instant now);
  void bundle_part(Link& link, const protocol::BundlePart& part);
  void failed(const LinkKey& key, const Error& error);
  void drop(Link& link);
  void mark(Link& link, bool up);
  void resolve(std::size_t index, Instant now);
  void resolved(std::size_t index, const std::vector<Endpoint>& addresses);
  void send_peers();
  void write(Link& link, const protocol::Message& message);
  Link* find(const WorkerRef& worker);
  bool silent(const Link& link, Duration time) const;

  WorkerLinksConfig config_;
  WorkerEvents& events_;
  net::FrameClient client_;
  boost::asio::ip::tcp::resolver resolver_;
  std::map<LinkKey, Link> links_;
  std::vector<Name> names_;
  Instant last_heartbeat_;
  ListeningClock listening_;
  bool have_bundle_ = false;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace baton::router
