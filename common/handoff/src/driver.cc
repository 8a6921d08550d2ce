#include "baton/handoff/driver.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <thread>
#include <utility>

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "baton/base/bounded_queue.h"
#include "baton/base/check.h"
#include "baton/handoff/core/digests.h"
#include "baton/protocol/unit_header.h"

namespace baton::handoff {
namespace {

// From DriverConfig::behind_at on nothing new is begun, and what comes all the same fits into the
// rest: a step under way reports (layers + 2) times for each request, at most 1024 × 200; each mail
// that the engine has taken (32 768 at most) brings a command or two; each link is dropped once.
constexpr std::size_t mailbox_capacity = 1 << 20;
// A peer's messages may fill a part of the mailbox only; the rest is for our own threads.
constexpr std::size_t waiting_pair_messages = 1 << 14;
// A handoff's messages follow each other within tens of microseconds; below that, sleeping and
// waking costs more than it saves.
constexpr Duration spin_time = std::chrono::microseconds(50);
constexpr Duration tick_time = std::chrono::milliseconds(50);

SendOutcome outcome_of(transport::Status status) {
  switch (status) {
    case transport::Status::ok:
      return SendOutcome::ok;
    case transport::Status::refused:
      return SendOutcome::refused;
    case transport::Status::cancelled:
      return SendOutcome::cancelled;
    case transport::Status::truncated:
    case transport::Status::peer_lost:
    case transport::Status::failed:
      return SendOutcome::lost;
  }
  return SendOutcome::lost;
}

}  // namespace

class Driver::Loop {
 public:
  using Mail = std::variant<EngineCommand, LinkCommand, DropLink, PairMessage>;

  Loop(DriverConfig config, DriverListener& listener)
      : config_(std::move(config)),
        listener_(listener),
        sender_(config_.geometry, config_.fingerprint, config_.sender),
        receiver_(config_.geometry, config_.fingerprint, config_.own_epoch, config_.receiver),
        wake_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
    BATON_CHECK(wake_ >= 0);
  }
  ~Loop() {
    stop_ = true;
    wake();
    if (thread_.joinable()) thread_.join();
    ::close(wake_);
  }
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  Result<void> register_arena() {
    for (auto& transport : config_.transports) {
      for (std::size_t group = 0; group < config_.arena->config().groups.size(); ++group) {
        BATON_TRY(transport->register_memory(config_.arena->memory(static_cast<int>(group))));
      }
    }
    return ok();
  }

  void start() {
    thread_ = std::thread([this] { run(); });
  }

  bool is_behind() const { return mailbox_.size() >= config_.behind_at; }

  void post(Mail mail) {
    BATON_CHECK(mailbox_.try_push(std::move(mail)));
    wake();
  }

  bool post_pair(PairMessage message) {
    if (pair_messages_ >= waiting_pair_messages) return false;
    ++pair_messages_;
    post(std::move(message));
    return true;
  }

  std::vector<std::pair<std::string, std::string>> addresses() const {
    std::vector<std::pair<std::string, std::string>> out;
    for (const auto& transport : config_.transports) {
      out.emplace_back(transport->name(), transport->address());
    }
    return out;
  }

 private:
  /// A data message in flight on a transport.
  struct Transfer {
    std::size_t transport = 0;
    transport::OfferId offer;   ///< receives only
    std::vector<Piece> pieces;  ///< receives only
    std::uint64_t bytes = 0;
  };
  struct Link {
    std::size_t transport = 0;
    transport::PeerId peer;
    NodeId node;
    Epoch epoch;
    RequestId secret;
    bool connecting = false;  ///< this side sends; the core learns of it at PeerUp
  };

  void wake() {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(wake_, &one, sizeof(one));
  }

  void run() {
    Instant last_activity = monotonic_now();
    Instant last_tick = last_activity;
    while (!stop_) {
      const bool busy = poll();
      const Instant now = monotonic_now();
      if (busy) last_activity = now;
      if (now - last_tick >= tick_time) {
        last_tick = now;
        sender_.tick(now);
        receiver_.tick(now);
        run_effects();
      }
      if (now - last_activity > spin_time) sleep();
    }
  }

  void sleep() {
    std::vector<pollfd> descriptors{{wake_, POLLIN, 0}};
    for (auto& transport : config_.transports) {
      const int descriptor = transport->arm();
      if (descriptor < 0) return;
      descriptors.push_back({descriptor, POLLIN, 0});
    }
    const auto patience = std::chrono::duration_cast<std::chrono::milliseconds>(tick_time);
    ::poll(descriptors.data(), descriptors.size(), static_cast<int>(patience.count()));
    std::uint64_t count = 0;
    [[maybe_unused]] const ssize_t read = ::read(wake_, &count, sizeof(count));
  }

  /// One turn. What the transports bring may answer a command that is still in the mailbox (an
  /// offer for a grant that was just opened), so commands are handled after the events were taken
  /// and before they are looked at.
  bool poll() {
    std::vector<std::pair<std::size_t, transport::Event>> arrived;
    for (std::size_t index = 0; index < config_.transports.size(); ++index) {
      std::vector<transport::Event> events;
      config_.transports[index]->poll(Duration{}, events);
      for (transport::Event& event : events) arrived.emplace_back(index, std::move(event));
    }
    const bool commanded = handle_commands();
    for (auto& [index, event] : arrived) {
      std::visit([this, at = index](auto& each) { handle(at, each); }, event);
      run_effects();
    }
    return digest_held() || commanded || !arrived.empty();
  }

  /// What this node computed itself is digested here, once, when it is first held: a step would
  /// wait for it. One block a turn, so that offers and other commits do not.
  bool digest_held() {
    const std::optional<Receiver::HeldBlock> held = receiver_.next_undigested();
    if (held) receiver_.digested(*held, digest(held->pieces));
    run_effects();
    return held.has_value();
  }

  bool handle_commands() {
    std::vector<Mail> mails = mailbox_.drain();
    for (Mail& mail : mails) {
      std::visit([this](auto& each) { handle(each); }, mail);
      run_effects();
    }
    return !mails.empty();
  }

  // ---- commands ----
  template <typename... Commands>
  void handle(std::variant<Commands...>& commands) {
    std::visit([this](auto& command) { this->handle(command); }, commands);
  }
  void handle(BeginSource& c) {
    sender_.begin(c.source, c.key, c.length, std::move(c.blocks), c.started_at);
  }
  void handle(ExtendSource& c) { sender_.extend(c.source, std::move(c.blocks)); }
  void handle(LayerReady& c) {
    const Sender::ReadyUnits ready = sender_.newly_ready(c.source, c.layer, c.positions);
    if (ready.count == 0) return;
    std::vector<Digest128> digests = digest(ready.pieces);
    std::vector<Digest128> v(digests.begin() + ready.count, digests.end());
    digests.resize(ready.count);
    sender_.units_ready(c.source, c.layer, ready.first, std::move(digests), std::move(v),
                        c.computed_at, monotonic_now());
  }
  void handle(CommitSource& c) {
    sender_.commit(c.source, c.first_index, std::move(c.tokens), c.sampled_at, monotonic_now());
  }
  void handle(SetTarget& c) {
    sender_.target(c.source, c.key, std::move(c.node), c.epoch, std::move(c.grant),
                   monotonic_now());
  }
  void handle(AbortSource& c) { sender_.abort(c.source); }
  void handle(OpenGrant& c) { receiver_.open(c.key, std::move(c.grant), std::move(c.blocks)); }
  void handle(CloseGrant& c) { receiver_.close(c.grant); }
  void handle(ConnectLink& c) {
    const std::optional<std::size_t> index = transport_named(c.data.transport);
    if (!index) {
      listener_.link_lost(c.link, {Reason::transport_failed,
                                   "transport " + c.data.transport + " is not configured here"});
      return;
    }
    const auto peer =
        config_.transports[*index]->connect(c.data.address, transport::PairToken(c.data.token));
    if (!peer) {
      listener_.link_lost(c.link, peer.error());
      return;
    }
    links_[c.link] = {*index, *peer, std::move(c.node), c.epoch, c.data.secret, true};
    peers_[{*index, *peer}] = c.link;
  }
  void handle(ExpectLink& c) {
    const std::optional<std::size_t> index = transport_named(c.transport);
    BATON_CHECK(index.has_value());
    const transport::PeerId peer =
        config_.transports[*index]->expect(transport::PairToken(c.token));
    links_[c.link] = {*index, peer, NodeId(), Epoch(), c.secret, false};
    peers_[{*index, peer}] = c.link;
    receiver_.link_up(c.link, c.secret);
    listener_.link_expected(c.link);
  }
  void handle(DropLink& c) {
    const auto found = links_.find(c.link);
    if (found == links_.end()) return;
    config_.transports[found->second.transport]->close(found->second.peer);
    forget_link(c.link);
  }
  void handle(PairMessage& c) {
    --pair_messages_;
    if (auto* commit = std::get_if<protocol::Commit>(&c.message)) {
      receiver_.commit(c.link, std::move(*commit), c.arrived);
    } else if (const auto* accepted = std::get_if<protocol::Accepted>(&c.message)) {
      sender_.accepted(c.link, *accepted, c.arrived);
    } else if (const auto* refused = std::get_if<protocol::CommitRefused>(&c.message)) {
      sender_.commit_refused(c.link, *refused, monotonic_now());
    }
  }

  // ---- transport events ----
  void handle(std::size_t index, transport::Offered& event) {
    const auto link = peers_.find({index, event.peer});
    const TransferId id(next_transfer_++);
    transfers_[id] = {index, event.offer, {}, event.bytes};
    receives_[{index, event.offer}] = id;
    receiver_.offered(link == peers_.end() ? LinkId() : link->second, id,
                      protocol::decode_unit_header(event.header), event.bytes);
  }
  void handle(std::size_t, transport::SendDone& event) {
    const TransferId id(event.send.value());
    const auto found = transfers_.find(sending(id));
    if (found == transfers_.end()) return;
    if (event.status == transport::Status::ok) listener_.bytes_moved(found->second.bytes, 0);
    transfers_.erase(found);
    sender_.send_done(id, outcome_of(event.status), monotonic_now());
  }
  void handle(std::size_t index, transport::ReceiveDone& event) {
    const auto receive = receives_.find({index, event.offer});
    if (receive == receives_.end()) return;
    const TransferId id = receive->second;
    receives_.erase(receive);
    const Transfer transfer = std::move(transfers_.at(id));
    transfers_.erase(id);
    std::vector<Digest128> contents;
    if (event.status == transport::Status::ok) {
      contents = digest(transfer.pieces);
      listener_.bytes_moved(0, transfer.bytes);
    }
    receiver_.received(id, contents);
  }
  void handle(std::size_t index, transport::PeerUp& event) {
    const auto found = peers_.find({index, event.peer});
    if (found == peers_.end()) return;
    const Link& link = links_.at(found->second);
    if (link.connecting) {
      sender_.link_up(found->second, link.node, link.epoch, link.secret, monotonic_now());
    }
  }
  void handle(std::size_t index, transport::PeerDown& event) {
    const auto found = peers_.find({index, event.peer});
    if (found == peers_.end()) return;
    const LinkId link = found->second;
    forget_link(link);
    listener_.link_lost(link, event.error);
  }

  // ---- effects ----
  void run_effects() {
    for (SenderEffect& effect : sender_.take_effects()) {
      std::visit([this](auto& each) { execute(each); }, effect);
    }
    for (ReceiverEffect& effect : receiver_.take_effects()) {
      std::visit([this](auto& each) { execute(each); }, effect);
    }
  }
  void execute(SendUnits& effect) {
    const auto found = links_.find(effect.link);
    if (found == links_.end()) {
      sender_.send_done(effect.id, SendOutcome::lost, monotonic_now());
      return;
    }
    const std::vector<transport::Extent> extents = extents_of(effect.pieces);
    const Result<void> started = config_.transports[found->second.transport]->send(
        transport::SendId(effect.id.value()), found->second.peer, protocol::encode(effect.header),
        extents);
    if (started) {
      transfers_[sending(effect.id)] = {found->second.transport, {}, {}, bytes_of(extents)};
    } else if (started.error().reason() == Reason::no_space) {
      sender_.send_postponed(effect.id);
    } else {
      sender_.send_done(effect.id, SendOutcome::lost, monotonic_now());
    }
  }
  void execute(CancelSend& effect) {
    const auto found = transfers_.find(sending(effect.id));
    if (found == transfers_.end()) return;
    config_.transports[found->second.transport]->cancel_send(transport::SendId(effect.id.value()));
  }
  void execute(SendCommit& effect) {
    // Before it goes: an answer finds the time of what it answers.
    sender_.commit_sent(effect.source, monotonic_now());
    listener_.send_to_pair(effect.link, std::move(effect.commit));
  }
  void execute(SourceAccepted& effect) {
    const auto found = links_.find(effect.link);
    if (found != links_.end()) {
      effect.facts.transport = config_.transports[found->second.transport]->name();
    }
    listener_.source_accepted(effect);
  }
  void execute(SourceFailed& effect) { listener_.source_failed(effect); }
  void execute(SourceIdle& effect) { listener_.source_idle(effect.source); }
  void execute(AcceptUnits& effect) {
    Transfer& transfer = transfers_.at(effect.offer);
    transfer.pieces = effect.pieces;
    config_.transports[transfer.transport]->accept(transfer.offer, extents_of(effect.pieces));
  }
  void execute(RefuseUnits& effect) {
    // Counted before the peer learns of it: whoever saw the refusal finds it in the metrics.
    listener_.units_refused(effect.reason);
    const auto found = transfers_.find(effect.offer);
    config_.transports[found->second.transport]->refuse(found->second.offer);
    receives_.erase({found->second.transport, found->second.offer});
    transfers_.erase(found);
  }
  void execute(CancelReceive& effect) {
    const Transfer& transfer = transfers_.at(effect.offer);
    config_.transports[transfer.transport]->cancel_receive(transfer.offer);
  }
  void execute(RefuseCommit& effect) {
    listener_.commit_refused(effect.message.reason);
    listener_.send_to_pair(effect.link, effect.message);
  }
  void execute(CommitVerified& effect) { listener_.commit_verified(effect); }
  void execute(GrantClosed& effect) { listener_.grant_closed(effect.grant); }
  void execute(HeldUnitsDiffer& effect) { listener_.held_units_differ(effect.grant); }

  // ---- helpers ----
  /// Sends and receives are numbered by different sides; the top bit keeps them apart.
  static TransferId sending(TransferId id) { return TransferId(id.value() | send_bit); }

  std::optional<std::size_t> transport_named(std::string_view name) const {
    for (std::size_t i = 0; i < config_.transports.size(); ++i) {
      if (config_.transports[i]->name() == name) return i;
    }
    return std::nullopt;
  }

  void forget_link(LinkId link) {
    const auto found = links_.find(link);
    if (found == links_.end()) return;
    peers_.erase({found->second.transport, found->second.peer});
    links_.erase(found);
    sender_.link_down(link, monotonic_now());
    receiver_.link_down(link);
  }

  std::byte* address_of(const Piece& piece) const {
    const auto part =
        piece.component == protocol::Component::k ? tensor::KvPart::k : tensor::KvPart::v;
    std::byte* block = config_.arena->block(
        static_cast<int>(piece.group), static_cast<int>(piece.layer_in_group), part, piece.block);
    return block + piece.unit * config_.geometry.unit_bytes;
  }

  /// Neighbouring pieces become one extent (a run of blocks is contiguous in the arena).
  std::vector<transport::Extent> extents_of(const std::vector<Piece>& pieces) const {
    std::vector<transport::Extent> out;
    for (const Piece& piece : pieces) {
      std::byte* data = address_of(piece);
      const std::size_t bytes = piece.count * config_.geometry.unit_bytes;
      if (!out.empty() && out.back().data + out.back().bytes == data) {
        out.back().bytes += bytes;
      } else {
        out.push_back({data, bytes});
      }
    }
    return out;
  }

  static std::uint64_t bytes_of(const std::vector<transport::Extent>& extents) {
    std::uint64_t total = 0;
    for (const transport::Extent& extent : extents) total += extent.bytes;
    return total;
  }

  std::vector<Digest128> digest(const std::vector<Piece>& pieces) const {
    std::vector<Digest128> out;
    for (const Piece& piece : pieces) {
      const std::byte* data = address_of(piece);
      for (std::uint32_t i = 0; i < piece.count; ++i) {
        out.push_back(content_digest({data + i * config_.geometry.unit_bytes,
                                      static_cast<std::size_t>(config_.geometry.unit_bytes)}));
      }
    }
    return out;
  }

  static constexpr std::uint64_t send_bit = 1ULL << 63;

  DriverConfig config_;
  DriverListener& listener_;
  Sender sender_;
  Receiver receiver_;
  BoundedQueue<Mail> mailbox_{mailbox_capacity};
  std::map<LinkId, Link> links_;
  std::map<std::pair<std::size_t, transport::PeerId>, LinkId> peers_;
  std::map<TransferId, Transfer> transfers_;
  std::map<std::pair<std::size_t, transport::OfferId>, TransferId> receives_;
  std::uint64_t next_transfer_ = 1;
  std::atomic<std::size_t> pair_messages_ = 0;
  int wake_;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

Driver::Driver(std::unique_ptr<Loop> loop) : loop_(std::move(loop)) {}
Driver::~Driver() = default;

Result<std::unique_ptr<Driver>> Driver::create(DriverConfig config, DriverListener& listener) {
  auto loop = std::make_unique<Loop>(std::move(config), listener);
  BATON_TRY(loop->register_arena());
  return std::unique_ptr<Driver>(new Driver(std::move(loop)));
}

void Driver::start() { loop_->start(); }
bool Driver::is_behind() const { return loop_->is_behind(); }
void Driver::post(EngineCommand command) { loop_->post(std::move(command)); }
void Driver::post(DropLink command) { loop_->post(command); }
bool Driver::post(LinkCommand command) {
  if (is_behind()) return false;
  loop_->post(std::move(command));
  return true;
}
bool Driver::post(PairMessage message) { return loop_->post_pair(std::move(message)); }
std::vector<std::pair<std::string, std::string>> Driver::addresses() const {
  return loop_->addresses();
}

}  // namespace baton::handoff
