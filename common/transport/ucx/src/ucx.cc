#include "baton/transport/ucx/ucx.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include <poll.h>

#include "baton/base/log.h"

#include "ucx_transport.h"

namespace baton::transport {
namespace ucx {
namespace {

/// Force-closed endpoints are gone within microseconds; a destructor does not wait longer for UCX.
constexpr Duration destructor_patience = std::chrono::seconds(1);

timespec to_timespec(Duration duration) {
  const auto count = std::max<std::int64_t>(duration.count(), 0);
  return {static_cast<time_t>(count / 1'000'000'000), static_cast<long>(count % 1'000'000'000)};
}

ucs_status_t set_handler(ucp_worker_h worker, unsigned id, ucp_am_recv_callback_t callback,
                         void* argument) {
  ucp_am_handler_param_t param = {};
  param.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                     UCP_AM_HANDLER_PARAM_FIELD_ARG;
  param.id = id;
  param.cb = callback;
  param.arg = argument;
  return ucp_worker_set_am_recv_handler(worker, &param);
}

}  // namespace

Result<void> UcxTransport::start() {
  BATON_TRY(runtime_.start(options_));
  for (const auto& [id, callback] :
       {std::pair(control_am, &on_control), std::pair(offer_am, &on_offer)}) {
    const ucs_status_t status = set_handler(runtime_.worker(), id, callback, this);
    if (status != UCS_OK) return ucx_error("message handler", status);
  }
  return runtime_.listen(&on_connection_request, this);
}

UcxTransport::~UcxTransport() {
  if (runtime_.listener() == nullptr) return;
  for (const ucp_conn_request_h request : connection_requests_) {
    ucp_listener_reject(runtime_.listener(), request);
  }
  connection_requests_.clear();
  const Instant until = monotonic_now() + destructor_patience;
  while (!links_.empty() && monotonic_now() < until) {
    progress();
    for (auto& [endpoint, link] : links_) {
      fail(*link, Status::cancelled, {Reason::cancelled, "closed here"});
    }
    close_failed_links();
  }
  if (!links_.empty()) log_warning("UCX kept {} endpoints open at the end", links_.size());
}

void UcxTransport::poll(Duration max_wait, std::vector<Event>& events) {
  const Instant start = monotonic_now();
  const Instant until = start + max_wait;
  for (;;) {
    const bool busy = progress();
    const Instant now = monotonic_now();
    expire(now);
    close_failed_links();
    if (!events_.empty() || woken_.exchange(false) || now >= until) break;
    if (!busy && now >= start + options_.spin) sleep_until(next_deadline(until));
  }
  events.insert(events.end(), std::make_move_iterator(events_.begin()),
                std::make_move_iterator(events_.end()));
  events_.clear();
}

/// True if UCX did something.
bool UcxTransport::progress() {
  bool busy = false;
  // Bounded, so that a steady stream of messages cannot keep poll() from returning.
  for (int i = 0; i < 64 && ucp_worker_progress(runtime_.worker()) != 0; ++i) busy = true;
  accept_connections();
  end_finished_receives();
  end_finished_sends();
  return busy;
}

void UcxTransport::expire(Instant now) {
  for (auto& [endpoint, link] : links_) {
    const bool waiting = !link->peer || peers_.at(*link->peer).state == Peer::State::connecting;
    if (waiting && now >= link->deadline) {
      fail(*link, Status::peer_lost, {Reason::transport_failed, "no answer to connect in time"});
    }
  }
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
  for (const auto& [endpoint, link] : links_) {
    if (!link->peer || peers_.at(*link->peer).state == Peer::State::connecting) {
      consider(link->deadline);
    }
    // UCX may finish a forced close without an event.
    if (link->closing) consider(monotonic_now() + std::chrono::milliseconds(1));
  }
  const auto grace = [&](const Link& link, std::optional<Instant> cancelled_at) {
    if (cancelled_at) consider(std::max(*cancelled_at, link.last_heard) + options_.cancel_grace);
  };
  for (const auto& [id, send] : sends_) grace(*send.link, send.cancelled_at);
  for (const auto& [id, offer] : offers_) grace(*offer.link, offer.cancelled_at);
  return until;
}

void UcxTransport::sleep_until(Instant until) {
  if (ucp_worker_arm(runtime_.worker()) != UCS_OK) return;  // something came in meanwhile
  // Looked at after arming: a wake-up before it may have been swallowed by it.
  if (woken_.load()) return;
  pollfd waited = {runtime_.event_descriptor(), POLLIN, 0};
  const timespec timeout = to_timespec(until - monotonic_now());
  ppoll(&waited, 1, &timeout, nullptr);
}

void UcxTransport::wake() {
  woken_.store(true);
  ucp_worker_signal(runtime_.worker());
}

}  // namespace ucx

Result<std::unique_ptr<Transport>> make_ucx(const Options& options) {
  auto transport = std::make_unique<ucx::UcxTransport>(options);
  BATON_TRY(transport->start());
  return std::unique_ptr<Transport>(std::move(transport));
}

}  // namespace baton::transport
