#include "baton/transport/ucx/ucx.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "ucx_transport.h"

namespace baton::transport {
namespace ucx {
namespace {

/// While UCX moves bytes its progress is all that runs, but for a look at everything else this
/// often.
constexpr Duration look_interval = std::chrono::milliseconds(1);

}  // namespace

Result<void> UcxTransport::start() {
  BATON_TRY(context_.start(options_));
  BATON_ASSIGN(const SocketAddress address, parse_socket_address(options_.bind_address));
  BATON_ASSIGN(listener_, listen_at(address));
  wake_ = Descriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  epoll_ = Descriptor(epoll_create1(EPOLL_CLOEXEC));
  if (!wake_ || !epoll_) return Error(Reason::io_error, "no descriptors are left");
  watch(wake_.get(), false);
  watch(listener_.get(), false);
  return ok();
}

UcxTransport::~UcxTransport() {
  for (auto& [id, peer] : peers_) {
    if (peer.link) fail(*peer.link, Status::cancelled, {Reason::cancelled, "closed here"});
  }
  // Bounded: close_failed_links() gives up on a link after its close_deadline.
  const auto has_link = [](const auto& entry) { return entry.second.link != nullptr; };
  while (std::any_of(peers_.begin(), peers_.end(), has_link)) {
    close_failed_links();
    progress();
  }
}

void UcxTransport::poll(Duration max_wait, std::vector<Event>& events) {
  const Instant start = monotonic_now();
  const Instant until = start + max_wait;
  for (;;) {
    const bool busy = progress();
    const Instant now = monotonic_now();
    if (!busy || now >= next_look_) {
      look_at_sockets();
      next_look_ = now + look_interval;
    }
    expire(now);
    close_failed_links();
    if (!events_.empty() || woken_ || now >= until) break;
    if (!busy && now >= start + options_.spin) sleep_until(next_deadline(until));
  }
  woken_ = false;
  events.insert(events.end(), std::make_move_iterator(events_.begin()),
                std::make_move_iterator(events_.end()));
  events_.clear();
}

/// Wake-ups, newcomers, greetings and the ends of connections: all that is not UCX's.
void UcxTransport::look_at_sockets() {
  std::uint64_t value = 0;
  if (read(wake_.get(), &value, sizeof(value)) > 0) woken_ = true;
  meet_strangers();
  for (auto& [id, peer] : peers_) {
    if (peer.link && !peer.link->failure) step_handshake(id, peer);
  }
}

/// True if UCX did something.
bool UcxTransport::progress() {
  bool busy = false;
  for (auto& [id, peer] : peers_) {
    if (!peer.link || peer.link->endpoint == nullptr) continue;
    // Bounded, so that a steady stream of messages cannot keep the others waiting.
    for (int i = 0; i < 64 && ucp_worker_progress(peer.link->worker->get()) != 0; ++i) busy = true;
  }
  end_finished_receives();
  end_finished_sends();
  return busy;
}

void UcxTransport::expire(Instant now) {
  const Error unanswered(Reason::transport_failed, "no answer to connect in time");
  for (auto& [id, peer] : peers_) {
    if (peer.state == Peer::State::connecting && now >= peer.deadline) {
      fail(*peer.link, Status::peer_lost, unanswered);
    }
  }
  std::erase_if(strangers_, [&](const Stranger& stranger) { return now >= stranger.deadline; });
  const auto silent = [&](const Link& link, std::optional<Instant> cancelled_at) {
    return cancelled_at && now >= std::max(*cancelled_at, link.last_heard) + options_.cancel_grace;
  };
  const Error error(Reason::transport_failed, "the peer does not answer a cancel");
  for (auto& [id, send] : sends_) {
    if (silent(*send.link, send.cancelled_at)) fail(*send.link, Status::peer_lost, error);
  }
  for (auto& [id, offer] : offers_) {
    if (silent(*offer.link, offer.cancelled_at)) fail(*offer.link, Status::peer_lost, error);
  }
}

Instant UcxTransport::next_deadline(Instant until) const {
  const auto consider = [&](Instant instant) { until = std::min(until, instant); };
  for (const auto& [id, peer] : peers_) {
    if (peer.state == Peer::State::connecting) consider(peer.deadline);
  }
  for (const Stranger& stranger : strangers_) consider(stranger.deadline);
  const auto grace = [&](const Link& link, std::optional<Instant> cancelled_at) {
    if (cancelled_at) consider(std::max(*cancelled_at, link.last_heard) + options_.cancel_grace);
  };
  for (const auto& [id, send] : sends_) grace(*send.link, send.cancelled_at);
  for (const auto& [id, offer] : offers_) grace(*offer.link, offer.cancelled_at);
  return until;
}

/// Adds to what arm()'s descriptor covers; a closed descriptor leaves by itself.
void UcxTransport::watch(int descriptor, bool for_write) const {
  epoll_event event = {};
  event.events = for_write ? EPOLLIN | EPOLLOUT : EPOLLIN;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, descriptor, &event) != 0) {
    epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, descriptor, &event);
  }
}

int UcxTransport::arm() {
  if (!events_.empty() || woken_) return -1;
  for (const auto& [id, peer] : peers_) {
    // UCX may finish a forced close without an event.
    if (peer.failure || (peer.link && peer.link->failure)) return -1;
    if (!peer.link) continue;
    watch(peer.link->handshake->descriptor(), peer.link->handshake->wants_write());
    if (peer.link->endpoint == nullptr) continue;
    if (ucp_worker_arm(peer.link->worker->get()) != UCS_OK) return -1;  // something came meanwhile
    watch(peer.link->worker->event_descriptor(), false);
  }
  return epoll_.get();
}

void UcxTransport::sleep_until(Instant until) {
  pollfd waited = {arm(), POLLIN, 0};
  if (waited.fd < 0) return;
  const timespec timeout = to_timespec(until - monotonic_now());
  ppoll(&waited, 1, &timeout, nullptr);
}

void UcxTransport::wake() {
  const std::uint64_t one = 1;
  // A full counter means that a wake-up is pending already.
  [[maybe_unused]] const ssize_t written = write(wake_.get(), &one, sizeof(one));
}

}  // namespace ucx

Result<std::unique_ptr<Transport>> make_ucx(const Options& options) {
  auto transport = std::make_unique<ucx::UcxTransport>(options);
  BATON_TRY(transport->start());
  return std::unique_ptr<Transport>(std::move(transport));
}

}  // namespace baton::transport
