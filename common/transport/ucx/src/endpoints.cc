// Connections: who may speak, and how an endpoint ends.
#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "address.h"
#include "ucx_transport.h"

namespace baton::transport::ucx {
namespace {

constexpr std::size_t max_strangers = 64;
constexpr std::string_view address_prefix = "ucx:";

Error violation(std::string message) { return {Reason::protocol_violation, std::move(message)}; }

}  // namespace

void UcxTransport::on_connection_request(ucp_conn_request_h request, void* argument) {
  static_cast<UcxTransport*>(argument)->connection_requests_.push_back(request);
}

void UcxTransport::on_endpoint_error(void* argument, ucp_ep_h endpoint, ucs_status_t status) {
  auto& self = *static_cast<UcxTransport*>(argument);
  const auto found = self.links_.find(endpoint);
  if (found == self.links_.end()) return;
  self.fail(*found->second, Status::peer_lost, ucx_error("connection", status));
}

void UcxTransport::fail(Link& link, Status status, Error error) {
  if (!link.failure) link.failure = Failure{status, std::move(error)};
}

Result<UcxTransport::Link*> UcxTransport::make_link(ucp_ep_params_t& params) {
  params.field_mask |= UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler.cb = &on_endpoint_error;
  params.err_handler.arg = this;
  auto link = std::make_unique<Link>();
  const ucs_status_t status = ucp_ep_create(runtime_.worker(), &params, &link->endpoint);
  if (status != UCS_OK) return ucx_error("endpoint", status);
  Link* const result = link.get();
  links_.emplace(result->endpoint, std::move(link));
  return result;
}

void UcxTransport::accept_connections() {
  for (const ucp_conn_request_h request : std::exchange(connection_requests_, {})) {
    const auto strangers = std::count_if(links_.begin(), links_.end(),
                                         [](const auto& entry) { return !entry.second->peer; });
    if (static_cast<std::size_t>(strangers) >= max_strangers) {
      ucp_listener_reject(runtime_.listener(), request);
      continue;
    }
    ucp_ep_params_t params = {};
    params.field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST;
    params.conn_request = request;
    const Result<Link*> link = make_link(params);
    if (link.has_value()) (*link)->deadline = monotonic_now() + options_.hello_deadline;
  }
}

Result<PeerId> UcxTransport::connect(std::string_view address, PairToken token) {
  if (!address.starts_with(address_prefix)) {
    return Error(Reason::invalid_request, "not a UCX address");
  }
  BATON_ASSIGN(const SocketAddress target,
               parse_socket_address(address.substr(address_prefix.size())));
  ucp_ep_params_t params = {};
  params.field_mask = UCP_EP_PARAM_FIELD_SOCK_ADDR | UCP_EP_PARAM_FIELD_FLAGS;
  params.flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER;
  params.sockaddr.addr = target.get();
  params.sockaddr.addrlen = target.size;
  const PeerId id = expect(token);
  Peer& peer = peers_.at(id);
  const Result<Link*> link = make_link(params);
  if (link.has_error()) {
    peer.failure = Failure{Status::peer_lost, link.error()};
    return id;
  }
  peer.state = Peer::State::connecting;
  peer.link = *link;
  peer.link->peer = id;
  peer.link->deadline = monotonic_now() + options_.connect_deadline;
  post_control(*peer.link, {wire_magic, ControlKind::hello, token.value().high, token.value().low});
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
  if (found->second.link != nullptr) {
    fail(*found->second.link, Status::cancelled, error);
  } else if (!found->second.failure) {
    found->second.failure = Failure{Status::cancelled, error};
  }
}

void UcxTransport::post_control(Link& link, const ControlHeader& header) {
  if (link.failure) return;
  auto message = std::make_unique<ControlMessage>(ControlMessage{this, &link, header});
  ucp_request_param_t param = {};
  param.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_AM_SEND_FLAG_REPLY | UCP_AM_SEND_FLAG_EAGER;
  param.cb.send = &on_control_sent;
  param.user_data = message.get();
  const ucs_status_ptr_t request = ucp_am_send_nbx(link.endpoint, control_am, &message->header,
                                                   sizeof(message->header), nullptr, 0, &param);
  if (UCS_PTR_IS_ERR(request)) {
    fail(link, Status::peer_lost, ucx_error("control message", UCS_PTR_STATUS(request)));
  } else if (request != nullptr) {
    ++link.operations;
    message.release();  // freed by on_control_sent
  }
}

void UcxTransport::on_control_sent(void* request, ucs_status_t status, void* user_data) {
  const std::unique_ptr<ControlMessage> message(static_cast<ControlMessage*>(user_data));
  ucp_request_free(request);
  --message->link->operations;
  if (status != UCS_OK) {
    message->owner->fail(*message->link, Status::peer_lost, ucx_error("control message", status));
  }
}

/// The link a message came on; null if it is unknown or over.
UcxTransport::Link* UcxTransport::link_of(const ucp_am_recv_param_t& param) {
  if ((param.recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP) == 0) return nullptr;
  const auto found = links_.find(param.reply_ep);
  if (found == links_.end() || found->second->failure) return nullptr;
  found->second->last_heard = monotonic_now();
  return found->second.get();
}

ucs_status_t UcxTransport::on_control(void* argument, const void* header, std::size_t header_bytes,
                                      void*, std::size_t bytes, const ucp_am_recv_param_t* param) {
  auto& self = *static_cast<UcxTransport*>(argument);
  Link* const link = self.link_of(*param);
  if (link == nullptr) return UCS_OK;
  ControlHeader control;
  if (header_bytes == sizeof(control)) std::memcpy(&control, header, sizeof(control));
  if (header_bytes != sizeof(control) || control.magic != wire_magic || bytes != 0) {
    self.fail(*link, Status::peer_lost, violation("malformed control message"));
  } else {
    self.handle_control(*link, control);
  }
  return UCS_OK;
}

void UcxTransport::handle_control(Link& link, const ControlHeader& header) {
  const bool connecting = link.peer && peers_.at(*link.peer).state == Peer::State::connecting;
  switch (header.kind) {
    case ControlKind::hello:
      if (link.peer) break;
      return on_hello(link, PairToken(RequestId{header.first, header.second}));
    case ControlKind::welcome:
      if (!connecting) break;
      peers_.at(*link.peer).state = Peer::State::up;
      events_.emplace_back(PeerUp{*link.peer});
      return;
    case ControlKind::verdict:
      if (!link.peer || connecting) break;
      return on_verdict(link, header.first, header.second);
    case ControlKind::cancel:
      if (!link.peer || connecting) break;
      return on_cancel(link, header.first);
  }
  fail(link, Status::peer_lost, violation("unexpected control message"));
}

void UcxTransport::on_hello(Link& link, PairToken token) {
  for (auto& [id, peer] : peers_) {
    if (peer.state != Peer::State::expected || peer.failure || peer.token != token) continue;
    peer.state = Peer::State::up;
    peer.link = &link;
    link.peer = id;
    events_.emplace_back(PeerUp{id});
    post_control(link, {wire_magic, ControlKind::welcome, 0, 0});
    return;
  }
  fail(link, Status::peer_lost, violation("unknown token"));
}

void UcxTransport::close_failed_links() {
  for (auto entry = links_.begin(); entry != links_.end();) {
    Link& link = *entry->second;
    if (link.failure && !link.closing) close_link(link);
    if (!link.closing || !is_closed(link)) {
      ++entry;
      continue;
    }
    if (link.peer) end_peer(*link.peer, *link.failure);
    entry = links_.erase(entry);
  }
  std::vector<std::pair<PeerId, Failure>> without_link;
  for (const auto& [id, peer] : peers_) {
    if (peer.failure) without_link.emplace_back(id, *peer.failure);
  }
  for (const auto& [id, failure] : without_link) end_peer(id, failure);
}

void UcxTransport::close_link(Link& link) {
  link.closing = true;
  ucp_request_param_t param = {};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_EP_CLOSE_FLAG_FORCE;
  const ucs_status_ptr_t request = ucp_ep_close_nbx(link.endpoint, &param);
  if (UCS_PTR_IS_PTR(request)) link.close_request = request;
}

/// True when UCX has given back the endpoint and every operation on it: no byte moves any more.
bool UcxTransport::is_closed(Link& link) {
  if (link.close_request != nullptr) {
    if (ucp_request_check_status(link.close_request) == UCS_INPROGRESS) return false;
    ucp_request_free(link.close_request);
    link.close_request = nullptr;
  }
  return link.operations == 0;
}

void UcxTransport::end_peer(PeerId id, const Failure& failure) {
  end_finished_receives();
  end_finished_sends();
  Peer& peer = peers_.at(id);
  for (auto send = sends_.begin(); send != sends_.end();) {
    if (peer.link == nullptr || send->second.link != peer.link) {
      ++send;
      continue;
    }
    const Status status = send->second.cancelled_at ? Status::cancelled : failure.status;
    events_.emplace_back(SendDone{send->first, status});
    send = sends_.erase(send);
  }
  for (const auto& [sequence, offer_id] : peer.offers) {
    OpenOffer& offer = offers_.at(offer_id);
    if (offer.rendezvous != nullptr) ucp_am_data_release(runtime_.worker(), offer.rendezvous);
    if (offer.accepted) {
      const Status status = offer.cancelled_at ? Status::cancelled : failure.status;
      events_.emplace_back(ReceiveDone{offer_id, status});
    }
    offers_.erase(offer_id);
  }
  peers_.erase(id);
  events_.emplace_back(PeerDown{id, failure.error});
}

}  // namespace baton::transport::ucx
