// All instances of the process share one mutex: whoever calls changes both sides at once, so that
// cancel and close never meet a copy half done. That is slow for many instances and simple to
// trust.
#include "baton/transport/loopback/loopback.h"

#include <map>
#include <mutex>
#include <utility>

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "baton/base/check.h"
#include "baton/transport/descriptor.h"
#include "baton/transport/memory.h"

namespace baton::transport {
namespace {

class Loopback;

struct Hub {
  std::mutex mutex;
  std::uint64_t next_address = 1;
  std::map<std::string, Loopback*, std::less<>> instances;
};

Hub& hub() {
  static Hub instance;
  return instance;
}

struct Peer {
  PairToken token;
  Loopback* remote = nullptr;  ///< set while the connection is up
  PeerId remote_id;
  std::size_t open_sends = 0;
};

struct OpenSend {
  PeerId peer;
  OfferId remote_offer;
  std::vector<Extent> extents;
};

struct OpenOffer {
  PeerId peer;
  SendId remote_send;
};

class Loopback final : public Transport {
 public:
  explicit Loopback(const Options& options) : options_(options) {
    const std::scoped_lock lock(hub().mutex);
    address_ = fmt::format("loopback:{}", hub().next_address++);
    hub().instances.emplace(address_, this);
  }

  ~Loopback() override {
    const std::scoped_lock lock(hub().mutex);
    while (!peers_.empty()) end_both(peers_.begin()->first);
    hub().instances.erase(address_);
  }

  std::string_view name() const override { return "loopback"; }
  std::string address() const override { return address_; }
  Result<void> register_memory(tensor::SharedBuffer& memory) override {
    return memory_.add(memory);
  }

  Result<PeerId> connect(std::string_view address, PairToken token) override;
  PeerId expect(PairToken token) override;
  void close(PeerId peer) override;
  Result<void> send(SendId id, PeerId peer, std::span<const std::byte> header,
                    std::span<const Extent> extents) override;
  void accept(OfferId offer, std::span<const Extent> extents) override;
  void refuse(OfferId offer) override;
  void cancel_send(SendId id) override;
  void cancel_receive(OfferId) override {}  // a copy ends inside accept()
  void poll(Duration max_wait, std::vector<Event>& events) override;
  int arm() override;
  void wake() override;

 private:
  // All below: the hub's mutex is held.
  PeerId add_peer(PairToken token);
  void signal();
  // A template, since GCC 12 takes a moved temporary variant for uninitialized.
  template <typename T>
  void push(T event) {
    events_.emplace_back(std::move(event));
    signal();
  }
  void end(PeerId id, Status status, const Error& error);
  void end_both(PeerId id);
  void end_send(SendId id, Status status);

  const Options options_;
  std::string address_;
  MemoryRegistry memory_;
  std::map<PeerId, Peer> peers_;
  std::map<SendId, OpenSend> sends_;
  std::map<OfferId, OpenOffer> offers_;
  std::uint32_t next_peer_ = 1;
  std::uint64_t next_offer_ = 1;
  std::vector<Event> events_;
  bool woken_ = false;
  Descriptor signal_{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
};

PeerId Loopback::add_peer(PairToken token) {
  const PeerId id(next_peer_++);
  peers_[id].token = token;
  return id;
}

Result<PeerId> Loopback::connect(std::string_view address, PairToken token) {
  const std::scoped_lock lock(hub().mutex);
  const PeerId id = add_peer(token);
  const auto found = hub().instances.find(address);
  if (found == hub().instances.end()) {
    end(id, Status::peer_lost,
        {Reason::transport_failed, fmt::format("nobody listens at {}", address)});
    return id;
  }
  Loopback& remote = *found->second;
  for (auto& [remote_id, remote_peer] : remote.peers_) {
    if (remote_peer.remote != nullptr || remote_peer.token != token || &remote == this) continue;
    remote_peer.remote = this;
    remote_peer.remote_id = id;
    peers_.at(id).remote = &remote;
    peers_.at(id).remote_id = remote_id;
    push(PeerUp{id});
    remote.push(PeerUp{remote_id});
    return id;
  }
  end(id, Status::peer_lost, {Reason::transport_failed, "the peer does not expect this token"});
  return id;
}

PeerId Loopback::expect(PairToken token) {
  const std::scoped_lock lock(hub().mutex);
  return add_peer(token);
}

void Loopback::close(PeerId peer) {
  const std::scoped_lock lock(hub().mutex);
  end_both(peer);
}

void Loopback::end_both(PeerId id) {
  const auto found = peers_.find(id);
  if (found == peers_.end()) return;
  const Peer peer = found->second;
  if (peer.remote != nullptr) {
    peer.remote->end(peer.remote_id, Status::peer_lost,
                     {Reason::transport_failed, "the peer closed the connection"});
  }
  end(id, Status::cancelled, {Reason::cancelled, "closed here"});
}

void Loopback::end(PeerId id, Status status, const Error& error) {
  for (auto send = sends_.begin(); send != sends_.end();) {
    if (send->second.peer != id) {
      ++send;
      continue;
    }
    push(SendDone{send->first, status});
    send = sends_.erase(send);
  }
  std::erase_if(offers_, [&](const auto& offer) { return offer.second.peer == id; });
  peers_.erase(id);
  push(PeerDown{id, error});
}

void Loopback::end_send(SendId id, Status status) {
  const auto send = sends_.find(id);
  --peers_.at(send->second.peer).open_sends;
  sends_.erase(send);
  push(SendDone{id, status});
}

Result<void> Loopback::send(SendId id, PeerId peer_id, std::span<const std::byte> header,
                            std::span<const Extent> extents) {
  const std::scoped_lock lock(hub().mutex);
  BATON_TRY(check_send(memory_, header, extents, options_));
  const auto found = peers_.find(peer_id);
  if (found == peers_.end() || found->second.remote == nullptr) {
    return Error(Reason::transport_failed, "the peer is not connected");
  }
  Peer& peer = found->second;
  if (peer.open_sends == options_.max_open_sends) {
    return Error(Reason::no_space, fmt::format("{} sends are open", peer.open_sends));
  }
  Loopback& remote = *peer.remote;
  const OfferId offer(remote.next_offer_++);
  const bool fresh =
      sends_.emplace(id, OpenSend{peer_id, offer, {extents.begin(), extents.end()}}).second;
  BATON_CHECK(fresh);
  ++peer.open_sends;
  remote.offers_.emplace(offer, OpenOffer{peer.remote_id, id});
  remote.push(Offered{offer, peer.remote_id, {header.begin(), header.end()}, total_bytes(extents)});
  return ok();
}

void Loopback::accept(OfferId offer, std::span<const Extent> extents) {
  const std::scoped_lock lock(hub().mutex);
  check_accept(memory_, extents);
  const auto found = offers_.find(offer);
  if (found == offers_.end()) {
    push(ReceiveDone{offer, Status::cancelled});
    return;
  }
  const OpenOffer open = found->second;
  offers_.erase(found);
  Loopback& remote = *peers_.at(open.peer).remote;
  const std::vector<Extent>& source = remote.sends_.at(open.remote_send).extents;
  std::vector<std::span<const std::byte>> from;
  from.reserve(source.size());
  for (const Extent& extent : source) from.emplace_back(extent.data, extent.bytes);
  const Status status = received_status(total_bytes(source), total_bytes(extents));
  ScatterCopy(std::move(from), {extents.begin(), extents.end()}).step(options_.max_payload_bytes);
  remote.end_send(open.remote_send, status);
  push(ReceiveDone{offer, status});
}

void Loopback::refuse(OfferId offer) {
  const std::scoped_lock lock(hub().mutex);
  const auto found = offers_.find(offer);
  if (found == offers_.end()) return;
  peers_.at(found->second.peer).remote->end_send(found->second.remote_send, Status::refused);
  offers_.erase(found);
}

void Loopback::cancel_send(SendId id) {
  const std::scoped_lock lock(hub().mutex);
  const auto found = sends_.find(id);
  if (found == sends_.end()) return;
  peers_.at(found->second.peer).remote->offers_.erase(found->second.remote_offer);
  end_send(id, Status::cancelled);
}

void Loopback::poll(Duration max_wait, std::vector<Event>& events) {
  const Instant until = monotonic_now() + max_wait;
  for (;;) {
    {
      const std::scoped_lock lock(hub().mutex);
      std::uint64_t count = 0;
      [[maybe_unused]] const ssize_t drained = read(signal_.get(), &count, sizeof(count));
      if (woken_ || !events_.empty() || monotonic_now() >= until) {
        woken_ = false;
        events.insert(events.end(), std::make_move_iterator(events_.begin()),
                      std::make_move_iterator(events_.end()));
        events_.clear();
        return;
      }
    }
    pollfd waited = {signal_.get(), POLLIN, 0};
    const timespec timeout = to_timespec(until - monotonic_now());
    ppoll(&waited, 1, &timeout, nullptr);
  }
}

int Loopback::arm() {
  const std::scoped_lock lock(hub().mutex);
  return woken_ || !events_.empty() ? -1 : signal_.get();
}

void Loopback::signal() {
  const std::uint64_t one = 1;
  // A full counter means that a signal is pending already.
  [[maybe_unused]] const ssize_t written = write(signal_.get(), &one, sizeof(one));
}

void Loopback::wake() {
  const std::scoped_lock lock(hub().mutex);
  woken_ = true;
  signal();
}

}  // namespace

std::unique_ptr<Transport> make_loopback(const Options& options) {
  return std::make_unique<Loopback>(options);
}

}  // namespace baton::transport
