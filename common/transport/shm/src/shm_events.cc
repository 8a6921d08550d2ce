// What poll() does: reads sockets, copies payloads, ends what is due.
#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <iterator>
#include <utility>

#include <fmt/format.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "baton/base/check.h"

#include "shm_transport.h"

namespace baton::transport::shm {
namespace {

/// Between two steps of a copy the sockets are looked at: about 0.2 ms at memcpy speed.
constexpr std::size_t copy_step_bytes = 4 * 1024 * 1024;
constexpr std::size_t max_strangers = 64;

Error violation(std::string message) { return {Reason::protocol_violation, std::move(message)}; }

}  // namespace

void ShmTransport::watch(int descriptor, bool for_write, bool add) {
  epoll_event event = {};
  event.events = for_write ? EPOLLIN | EPOLLOUT : EPOLLIN;
  event.data.fd = descriptor;
  BATON_CHECK(epoll_ctl(epoll_.get(), add ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, descriptor, &event) ==
              0);
}

void ShmTransport::poll(Duration max_wait, std::vector<Event>& events) {
  const Instant start = monotonic_now();
  const Instant until = start + max_wait;
  for (;;) {
    progress();
    step_copies();
    const Instant now = monotonic_now();
    expire(now);
    end_failed_peers();
    if (!events_.empty() || woken_ || now >= until) break;
    if (!copies_.empty() || now < start + options_.spin) continue;
    sleep_until(until);
  }
  woken_ = false;
  events.insert(events.end(), std::make_move_iterator(events_.begin()),
                std::make_move_iterator(events_.end()));
  events_.clear();
}

int ShmTransport::arm() {
  const bool due = !events_.empty() || !copies_.empty() ||
                   std::any_of(peers_.begin(), peers_.end(),
                               [](const auto& entry) { return entry.second.failure.has_value(); });
  return due ? -1 : epoll_.get();
}

void ShmTransport::sleep_until(Instant until) {
  for (const auto& [id, peer] : peers_) {
    if (peer.state == Peer::State::connecting) until = std::min(until, peer.deadline);
  }
  for (const auto& [descriptor, stranger] : strangers_) until = std::min(until, stranger.deadline);
  pollfd waited = {epoll_.get(), POLLIN, 0};
  const timespec timeout = to_timespec(until - monotonic_now());
  ppoll(&waited, 1, &timeout, nullptr);
}

void ShmTransport::progress() {
  std::array<epoll_event, 64> ready;
  const int count = epoll_wait(epoll_.get(), ready.data(), static_cast<int>(ready.size()), 0);
  for (int i = 0; i < count; ++i) {
    const int descriptor = ready[static_cast<std::size_t>(i)].data.fd;
    if (descriptor == wake_.get()) {
      std::uint64_t value = 0;
      woken_ = read(descriptor, &value, sizeof(value)) > 0 || woken_;
    } else if (descriptor == listener_.get()) {
      accept_strangers();
    } else if (const auto peer = peer_of_descriptor_.find(descriptor);
               peer != peer_of_descriptor_.end()) {
      hear_peer(peer->second);
    } else {
      hear_stranger(descriptor);
    }
  }
}

void ShmTransport::accept_strangers() {
  for (;;) {
    Descriptor socket_fd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket_fd) return;
    const int descriptor = socket_fd.get();
    Connection connection(std::move(socket_fd));
    if (strangers_.size() >= max_strangers || !connection.same_user()) continue;
    watch(descriptor, false, true);
    strangers_.emplace(descriptor,
                       Stranger{std::move(connection), monotonic_now() + options_.hello_deadline});
  }
}

void ShmTransport::hear_stranger(int descriptor) {
  const auto found = strangers_.find(descriptor);
  if (found == strangers_.end()) return;
  Descriptor file;
  const auto received = found->second.connection.receive(buffer_, file);
  if (received == Connection::Received::nothing) return;
  Connection connection = std::move(found->second.connection);
  strangers_.erase(found);
  if (received == Connection::Received::closed) return;
  const std::optional<Message> message = decode(buffer_);
  if (message && std::holds_alternative<Hello>(*message)) {
    admit(std::move(connection), std::get<Hello>(*message));
  }
}

/// An unknown token or version: the connection is closed by its end of life here.
void ShmTransport::admit(Connection connection, const Hello& hello) {
  if (hello.version != protocol_version) return;
  for (auto& [id, peer] : peers_) {
    if (peer.state != Peer::State::expected || peer.failure || peer.token != hello.token) continue;
    peer_of_descriptor_[connection.descriptor()] = id;
    peer.connection = std::make_unique<Connection>(std::move(connection));
    peer.state = Peer::State::up;
    events_.emplace_back(PeerUp{id});
    post(id, peer, Welcome{});
    return;
  }
}

void ShmTransport::hear_peer(PeerId id) {
  Peer& peer = peers_.at(id);
  if (peer.failure || peer.connection == nullptr) return;
  flush(id, peer);
  while (!peer.failure) {
    Descriptor file;
    const auto received = peer.connection->receive(buffer_, file);
    if (received == Connection::Received::nothing) return;
    if (received == Connection::Received::closed) {
      fail(peer, Status::peer_lost, {Reason::transport_failed, "the peer closed the connection"});
      return;
    }
    const std::optional<Message> message = decode(buffer_);
    if (!message) {
      fail(peer, Status::peer_lost, violation("malformed message"));
      return;
    }
    handle(id, peer, *message, std::move(file));
  }
}

void ShmTransport::handle(PeerId id, Peer& peer, const Message& message, Descriptor file) {
  const bool connecting = peer.state == Peer::State::connecting;
  if (std::holds_alternative<Welcome>(message) != connecting ||
      std::holds_alternative<Hello>(message)) {
    fail(peer, Status::peer_lost, violation("unexpected message"));
  } else if (connecting) {
    peer.state = Peer::State::up;
    events_.emplace_back(PeerUp{id});
  } else if (const auto* region = std::get_if<Region>(&message)) {
    const Result<void> added = peer.mapped.add(region->index, region->bytes, std::move(file));
    if (added.has_error()) fail(peer, Status::peer_lost, added.error());
  } else if (const auto* offer = std::get_if<Offer>(&message)) {
    on_offer(id, peer, *offer);
  } else if (const auto* verdict = std::get_if<Verdict>(&message)) {
    on_verdict(peer, *verdict);
  } else {
    on_cancel(peer, std::get<Cancel>(message));
  }
}

void ShmTransport::on_offer(PeerId id, Peer& peer, const Offer& offer) {
  if (offer.sequence != peer.next_offer || peer.offers.size() >= options_.max_open_sends) {
    fail(peer, Status::peer_lost, violation("offer out of order or too many"));
    return;
  }
  ++peer.next_offer;
  OpenOffer open;
  open.peer = id;
  open.sequence = offer.sequence;
  open.source.reserve(offer.ranges.size());
  for (const RegionRange& range : offer.ranges) {
    const auto bytes = peer.mapped.resolve(range);
    // The sum is checked at each step, so that it cannot overflow (R13).
    if (!bytes || bytes->size() > options_.max_payload_bytes - open.bytes) {
      fail(peer, Status::peer_lost, violation("offer outside the peer's memory, or too large"));
      return;
    }
    open.source.push_back(*bytes);
    open.bytes += bytes->size();
  }
  const OfferId offer_id(next_offer_++);
  peer.offers.emplace(offer.sequence, offer_id);
  events_.emplace_back(Offered{offer_id, id, offer.header, open.bytes});
  offers_.emplace(offer_id, std::move(open));
}

void ShmTransport::on_verdict(Peer& peer, const Verdict& verdict) {
  const auto found = peer.sends.find(verdict.sequence);
  if (found == peer.sends.end()) {
    fail(peer, Status::peer_lost, violation("verdict about no open send"));
    return;
  }
  const SendId id = found->second;
  peer.sends.erase(found);
  end_send(id, verdict.status);
}

void ShmTransport::on_cancel(Peer& peer, const Cancel& cancel) {
  // Not found: the verdict and the cancel crossed.
  if (const auto found = peer.offers.find(cancel.sequence); found != peer.offers.end()) {
    end_offer(found->second, Status::cancelled);
  }
}

void ShmTransport::step_copies() {
  if (copies_.empty()) return;
  const OfferId id = copies_.front();
  if (!offers_.at(id).copy->step(copy_step_bytes)) return;
  // See shm_transport.h: the copy counts only if no cancel and no close came before its end.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  const PeerId peer_id = offers_.at(id).peer;
  hear_peer(peer_id);
  if (peers_.at(peer_id).failure) return;
  const auto found = offers_.find(id);
  if (found != offers_.end()) end_offer(id, found->second.status);
}

void ShmTransport::expire(Instant now) {
  for (auto& [id, peer] : peers_) {
    if (peer.state == Peer::State::connecting && now >= peer.deadline) {
      fail(peer, Status::peer_lost, {Reason::transport_failed, "no answer to connect in time"});
    }
  }
  std::erase_if(strangers_, [&](const auto& entry) { return now >= entry.second.deadline; });
}

void ShmTransport::end_failed_peers() {
  std::vector<PeerId> failed;
  for (const auto& [id, peer] : peers_) {
    if (peer.failure) failed.push_back(id);
  }
  for (const PeerId id : failed) end_peer(id);
}

void ShmTransport::end_peer(PeerId id) {
  Peer& peer = peers_.at(id);
  const Failure failure = *peer.failure;
  std::erase_if(peer_of_descriptor_, [&](const auto& entry) { return entry.second == id; });
  peer.connection.reset();
  for (const auto& [sequence, send] : peer.sends) end_send(send, failure.status);
  for (const auto& [sequence, offer] : peer.offers) {
    if (offers_.at(offer).copy) events_.emplace_back(ReceiveDone{offer, failure.status});
    std::erase(copies_, offer);
    offers_.erase(offer);
  }
  peers_.erase(id);
  events_.emplace_back(PeerDown{id, failure.error});
}

}  // namespace baton::transport::shm
