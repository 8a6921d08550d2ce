#include "baton/transport/shm/shm.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "baton/base/check.h"

#include "shm_transport.h"

namespace baton::transport {
namespace shm {
namespace {

Error failed(const char* step) {
  return {Reason::io_error,
          fmt::format("shared memory transport: {}: {}", step, std::strerror(errno))};
}

}  // namespace

Result<void> ShmTransport::start() {
  epoll_ = Descriptor(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_) return failed("epoll_create1");
  wake_ = Descriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_) return failed("eventfd");
  listener_ = Descriptor(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener_) return failed("socket");
  const SocketAddress address = abstract_address(socket_name_);
  if (bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address.address), address.size) !=
      0) {
    return failed("bind");
  }
  if (listen(listener_.get(), SOMAXCONN) != 0) return failed("listen");
  watch(wake_.get(), false, true);
  watch(listener_.get(), false, true);
  return ok();
}

PeerId ShmTransport::add_peer(PairToken token, Peer::State state) {
  const PeerId id(next_peer_++);
  Peer& peer = peers_[id];
  peer.token = token;
  peer.state = state;
  return id;
}

PeerId ShmTransport::expect(PairToken token) { return add_peer(token, Peer::State::expected); }

Result<PeerId> ShmTransport::connect(std::string_view address, PairToken token) {
  BATON_ASSIGN(const std::string name, parse_address(address, host_));
  Descriptor socket_fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket_fd) return failed("socket");
  const SocketAddress target = abstract_address(name);
  const int result =
      ::connect(socket_fd.get(), reinterpret_cast<const sockaddr*>(&target.address), target.size);
  const int connect_errno = errno;
  const PeerId id = add_peer(token, Peer::State::connecting);
  Peer& peer = peers_.at(id);
  if (result != 0) {
    fail(peer, Status::peer_lost,
         {Reason::transport_failed, fmt::format("connect: {}", std::strerror(connect_errno))});
    return id;
  }
  peer.connection = std::make_unique<Connection>(std::move(socket_fd));
  if (!peer.connection->same_user()) {
    fail(peer, Status::peer_lost,
         {Reason::transport_failed, "the listener belongs to another user"});
    return id;
  }
  peer.deadline = monotonic_now() + options_.connect_deadline;
  peer_of_descriptor_[peer.connection->descriptor()] = id;
  watch(peer.connection->descriptor(), false, true);
  post(id, peer, Hello{protocol_version, token});
  return id;
}

void ShmTransport::close(PeerId id) {
  const auto found = peers_.find(id);
  if (found == peers_.end()) return;
  fail(found->second, Status::cancelled, {Reason::cancelled, "closed here"});
  // Shut now, so that a peer which still copies learns it before our memory is reused.
  found->second.connection.reset();
}

void ShmTransport::fail(Peer& peer, Status status, Error error) {
  if (!peer.failure) peer.failure = Failure{status, std::move(error)};
}

void ShmTransport::post(PeerId id, Peer& peer, const Message& message, int file,
                        std::optional<SendId> written) {
  if (peer.failure || peer.connection == nullptr) return;
  peer.connection->queue(encode(message), file, written);
  flush(id, peer);
}

void ShmTransport::flush(PeerId, Peer& peer) {
  std::vector<SendId> written;
  if (!peer.connection->flush(written)) {
    fail(peer, Status::peer_lost, {Reason::transport_failed, "the connection broke"});
    return;
  }
  for (const SendId send : written) end_send(send, Status::cancelled);
  const bool wants_write = peer.connection->queued() > 0;
  if (wants_write == peer.wants_write) return;
  peer.wants_write = wants_write;
  watch(peer.connection->descriptor(), wants_write, false);
}

void ShmTransport::send_new_regions(PeerId id, Peer& peer) {
  for (std::uint32_t i = 0; i < memory_.regions().size(); ++i) {
    if (peer.regions_sent.test(i)) continue;
    peer.regions_sent.set(i);
    const tensor::SharedBuffer& memory = *memory_.regions()[i];
    if (memory.size() > 0) post(id, peer, Region{i, memory.size()}, memory.descriptor());
  }
}

Result<void> ShmTransport::send(SendId id, PeerId peer_id, std::span<const std::byte> header,
                                std::span<const Extent> extents) {
  BATON_TRY(check_send(memory_, header, extents, options_));
  const auto found = peers_.find(peer_id);
  if (found == peers_.end() || found->second.failure || found->second.state != Peer::State::up) {
    return Error(Reason::transport_failed, "the peer is not connected");
  }
  Peer& peer = found->second;
  if (peer.sends.size() >= options_.max_open_sends) {
    return Error(Reason::no_space, fmt::format("{} sends are open", peer.sends.size()));
  }
  Offer offer;
  offer.sequence = peer.next_send++;
  offer.header.assign(header.begin(), header.end());
  offer.ranges.reserve(extents.size());
  for (const Extent& extent : extents) offer.ranges.push_back(*memory_.find(extent));
  peer.sends.emplace(offer.sequence, id);
  const bool fresh = sends_.emplace(id, OpenSend{peer_id, offer.sequence}).second;
  BATON_CHECK(fresh);
  send_new_regions(peer_id, peer);
  post(peer_id, peer, offer);
  return ok();
}

void ShmTransport::cancel_send(SendId id) {
  const auto found = sends_.find(id);
  if (found == sends_.end() || found->second.cancelling) return;
  found->second.cancelling = true;
  const OpenSend send = found->second;
  // The send ends when the kernel has the message: whoever finishes a copy later sees it.
  post(send.peer, peers_.at(send.peer), Cancel{send.sequence}, -1, id);
}

void ShmTransport::end_send(SendId id, Status status) {
  if (sends_.erase(id) == 0) return;
  // Orders the sender's later writes to its memory behind the cancel or close they depend on.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  events_.emplace_back(SendDone{id, status});
}

void ShmTransport::accept(OfferId id, std::span<const Extent> extents) {
  check_accept(memory_, extents);
  const auto found = offers_.find(id);
  if (found == offers_.end()) {
    events_.emplace_back(ReceiveDone{id, Status::cancelled});
    return;
  }
  OpenOffer& offer = found->second;
  BATON_CHECK(!offer.copy);
  offer.status = received_status(offer.bytes, total_bytes(extents));
  offer.copy.emplace(std::move(offer.source), std::vector<Extent>(extents.begin(), extents.end()));
  copies_.push_back(id);
}

void ShmTransport::refuse(OfferId id) {
  const auto found = offers_.find(id);
  if (found == offers_.end()) return;
  BATON_CHECK(!found->second.copy);
  end_offer(id, Status::refused);
}

void ShmTransport::cancel_receive(OfferId id) {
  const auto found = offers_.find(id);
  if (found != offers_.end() && found->second.copy) end_offer(id, Status::cancelled);
}

/// Tells the sender, and the receiver if it had accepted.
void ShmTransport::end_offer(OfferId id, Status status) {
  const auto found = offers_.find(id);
  const bool accepted = found->second.copy.has_value();
  const PeerId peer_id = found->second.peer;
  const std::uint64_t sequence = found->second.sequence;
  offers_.erase(found);
  if (accepted) {
    std::erase(copies_, id);
    events_.emplace_back(ReceiveDone{id, status});
  }
  Peer& peer = peers_.at(peer_id);
  peer.offers.erase(sequence);
  post(peer_id, peer, Verdict{sequence, status});
}

void ShmTransport::wake() {
  const std::uint64_t one = 1;
  // A full counter means that a wake-up is pending already.
  [[maybe_unused]] const ssize_t written = write(wake_.get(), &one, sizeof(one));
}

}  // namespace shm

Result<std::unique_ptr<Transport>> make_shm(const Options& options) {
  BATON_ASSIGN(shm::Host host, shm::this_host());
  auto transport = std::make_unique<shm::ShmTransport>(options, std::move(host),
                                                       random_request_id().to_string());
  BATON_TRY(transport->start());
  return std::unique_ptr<Transport>(std::move(transport));
}

}  // namespace baton::transport
