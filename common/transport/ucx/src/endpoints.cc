// Connections: who may speak, and how an endpoint ends.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "baton/base/log.h"

#include "address.h"
#include "ucx_transport.h"

namespace baton::transport::ucx {
namespace {

constexpr std::size_t max_strangers = 64;
constexpr std::string_view address_prefix = "ucx:";

/// UCX gives back a force-closed endpoint within microseconds. If it does not, its worker is
/// destroyed, which ends its operations as well.
constexpr Duration close_patience = std::chrono::milliseconds(500);

}  // namespace

void UcxTransport::on_endpoint_error(void* argument, ucp_ep_h, ucs_status_t status) {
  fail(*static_cast<Link*>(argument), Status::peer_lost, ucx_error("connection", status));
}

void UcxTransport::fail(Link& link, Status status, Error error) {
  if (!link.failure) link.failure = Failure{status, std::move(error)};
}

Result<PeerId> UcxTransport::connect(std::string_view address, PairToken token) {
  if (!address.starts_with(address_prefix)) {
    return Error(Reason::invalid_request, "not a UCX address");
  }
  BATON_ASSIGN(const SocketAddress target,
               parse_socket_address(address.substr(address_prefix.size())));
  const PeerId id = expect(token);
  Peer& peer = peers_.at(id);
  Result<Descriptor> socket_fd = start_connecting(target);
  if (socket_fd.has_error()) {
    peer.failure = Failure{Status::peer_lost, socket_fd.error()};
    return id;
  }
  peer.state = Peer::State::connecting;
  peer.deadline = monotonic_now() + options_.connect_deadline;
  peer.link = std::make_unique<Link>(this, id, Handshake(std::move(*socket_fd)));
  const Result<void> made = make_worker(*peer.link);
  if (made.has_error()) {
    fail(*peer.link, Status::peer_lost, made.error());
    return id;
  }
  const auto own = peer.link->worker->address();
  peer.link->handshake->say({token, {own.begin(), own.end()}});
  return id;
}

PeerId UcxTransport::expect(PairToken token) {
  const PeerId id(next_peer_++);
  peers_[id].token = token;
  return id;
}

void UcxTransport::close(PeerId id) {
  const auto found = peers_.find(id);
  if (found == peers_.end()) return;
  const Error error(Reason::cancelled, "closed here");
  if (found->second.link) {
    fail(*found->second.link, Status::cancelled, error);
  } else if (!found->second.failure) {
    found->second.failure = Failure{Status::cancelled, error};
  }
}

void UcxTransport::meet_strangers() {
  while (Descriptor socket_fd = accept_from(listener_.get())) {
    // A crowd of silent connections must not keep a real peer out: the oldest makes room.
    if (strangers_.size() >= max_strangers) strangers_.erase(strangers_.begin());
    watch(socket_fd.get(), false);
    strangers_.push_back(
        {Handshake(std::move(socket_fd)), monotonic_now() + options_.hello_deadline});
  }
  std::vector<Stranger> waiting;
  for (Stranger& stranger : strangers_) {
    if (stranger.handshake.step().has_error()) continue;
    if (const std::optional<Greeting> greeting = stranger.handshake.take_greeting()) {
      admit(std::move(stranger.handshake), *greeting);
    } else {
      waiting.push_back(std::move(stranger));
    }
  }
  strangers_ = std::move(waiting);
}

/// An unknown token: the connection is closed by its end of life here.
void UcxTransport::admit(Handshake handshake, const Greeting& greeting) {
  for (auto& [id, peer] : peers_) {
    if (peer.state != Peer::State::expected || peer.failure || peer.token != greeting.token) {
      continue;
    }
    peer.link = std::make_unique<Link>(this, id, std::move(handshake));
    Result<void> made = make_worker(*peer.link);
    if (made.has_value()) made = make_endpoint(*peer.link, greeting);
    if (made.has_error()) {
      fail(*peer.link, Status::peer_lost, made.error());
      return;
    }
    const auto own = peer.link->worker->address();
    peer.link->handshake->say({{}, {own.begin(), own.end()}});
    peer.state = Peer::State::up;
    events_.emplace_back(PeerUp{id});
    return;
  }
}

void UcxTransport::step_handshake(PeerId id, Peer& peer) {
  Link& link = *peer.link;
  const Result<void> stepped = link.handshake->step();
  if (peer.state == Peer::State::connecting) {
    if (const std::optional<Greeting> greeting = link.handshake->take_greeting()) {
      const Result<void> made = make_endpoint(link, *greeting);
      if (made.has_error()) return fail(link, Status::peer_lost, made.error());
      peer.state = Peer::State::up;
      events_.emplace_back(PeerUp{id});
    }
  }
  if (stepped.has_error()) fail(link, Status::peer_lost, stepped.error());
}

Result<void> UcxTransport::make_worker(Link& link) {
  BATON_ASSIGN(link.worker, context_.make_worker());
  BATON_TRY(link.worker->set_handler(control_message, &on_control, &link));
  return link.worker->set_handler(offer_message, &on_offer, &link);
}

Result<void> UcxTransport::make_endpoint(Link& link, const Greeting& greeting) {
  ucp_ep_params_t params = {};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(greeting.worker_address.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler.cb = &on_endpoint_error;
  params.err_handler.arg = &link;
  const ucs_status_t status = ucp_ep_create(link.worker->get(), &params, &link.endpoint);
  if (status != UCS_OK) {
    link.endpoint = nullptr;
    return ucx_error("endpoint", status);
  }
  return ok();
}

void UcxTransport::close_failed_links() {
  std::vector<std::pair<PeerId, Failure>> ended;
  for (auto& [id, peer] : peers_) {
    if (peer.failure) ended.emplace_back(id, *peer.failure);
    if (!peer.link || !peer.link->failure) continue;
    if (!peer.link->closing) close_link(*peer.link);
    if (is_closed(*peer.link)) ended.emplace_back(id, *peer.link->failure);
  }
  for (const auto& [id, failure] : ended) end_peer(id, failure);
}

void UcxTransport::close_link(Link& link) {
  link.closing = true;
  link.close_deadline = monotonic_now() + close_patience;
  link.handshake.reset();  // now, so that the other side learns it whatever UCX does
  if (link.endpoint == nullptr) return;
  ucp_request_param_t param = {};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_EP_CLOSE_FLAG_FORCE;
  const ucs_status_ptr_t request = ucp_ep_close_nbx(link.endpoint, &param);
  if (UCS_PTR_IS_PTR(request)) link.close_request = request;
}

/// True when UCX has given back the endpoint and every operation on it.
bool UcxTransport::is_closed(Link& link) {
  if (link.close_request != nullptr &&
      ucp_request_check_status(link.close_request) != UCS_INPROGRESS) {
    ucp_request_free(link.close_request);
    link.close_request = nullptr;
  }
  if (link.close_request == nullptr && link.operations == 0) return true;
  if (monotonic_now() < link.close_deadline) return false;
  log_warning("UCX kept {} operations of a closed endpoint: its worker is destroyed",
              link.operations);
  return true;
}

/// The link is closed. Its worker goes first: after that no byte moves any more.
void UcxTransport::end_peer(PeerId id, const Failure& failure) {
  end_finished_receives();
  end_finished_sends();
  Peer& peer = peers_.at(id);
  for (const auto& [sequence, offer] : peer.offers) {
    OpenOffer& open = offers_.at(offer);
    if (open.rendezvous != nullptr) ucp_am_data_release(open.link->worker->get(), open.rendezvous);
    open.rendezvous = nullptr;
  }
  if (peer.link) peer.link->worker.reset();
  for (auto send = sends_.begin(); send != sends_.end();) {
    if (!peer.link || send->second.link != peer.link.get()) {
      ++send;
      continue;
    }
    const Status status = send->second.cancelled_at ? Status::cancelled : failure.status;
    events_.emplace_back(SendDone{send->first, status});
    send = sends_.erase(send);
  }
  for (const auto& [sequence, offer] : peer.offers) {
    const OpenOffer& open = offers_.at(offer);
    if (open.accepted) {
      const Status status = open.cancelled_at ? Status::cancelled : failure.status;
      events_.emplace_back(ReceiveDone{offer, status});
    }
    offers_.erase(offer);
  }
  peers_.erase(id);
  events_.emplace_back(PeerDown{id, failure.error});
}

}  // namespace baton::transport::ucx
