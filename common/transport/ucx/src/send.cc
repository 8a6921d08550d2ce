// The sender's side: one message per send; it is over when UCX is done with its memory and the
// receiver has said how it ended.
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "baton/base/check.h"

#include "ucx_transport.h"

namespace baton::transport::ucx {

Result<void> UcxTransport::send(SendId id, PeerId peer_id, std::span<const std::byte> header,
                                std::span<const Extent> extents) {
  BATON_TRY(check_send(memory_, header, extents, options_));
  const auto found = peers_.find(peer_id);
  if (found == peers_.end() || found->second.state != Peer::State::up ||
      found->second.link->failure) {
    return Error(Reason::transport_failed, "the peer is not connected");
  }
  Peer& peer = found->second;
  if (peer.sends.size() >= options_.max_open_sends) {
    return Error(Reason::no_space, fmt::format("{} sends are open", peer.sends.size()));
  }
  const auto [entry, fresh] = sends_.try_emplace(id);
  BATON_CHECK(fresh);
  OpenSend& send = entry->second;
  send.id = id;
  send.link = peer.link.get();
  send.sequence = peer.next_send;
  const OfferHeader prefix{send.sequence};
  send.header.resize(sizeof(prefix) + header.size());
  std::memcpy(send.header.data(), &prefix, sizeof(prefix));
  if (!header.empty()) {
    std::memcpy(send.header.data() + sizeof(prefix), header.data(), header.size());
  }
  const std::size_t bytes = total_bytes(extents);
  if (bytes <= max_eager_bytes) {
    // In one piece: a small message of many parts trips an assertion of UCX 1.13.
    for (const Extent& extent : extents) {
      send.eager.insert(send.eager.end(), extent.data, extent.data + extent.bytes);
    }
  } else {
    for (const Extent& extent : extents) {
      if (extent.bytes > 0) send.parts.push_back({extent.data, extent.bytes});
    }
  }
  const ucs_status_t status = post_send(send);
  if (status != UCS_OK) {
    sends_.erase(entry);
    if (status == UCS_ERR_NO_RESOURCE || status == UCS_ERR_NO_MEMORY) {
      return Error(Reason::no_space, ucs_status_string(status));
    }
    fail(*peer.link, Status::peer_lost, ucx_error("send", status));
    return ucx_error("send", status);
  }
  ++peer.next_send;
  peer.sends.emplace(send.sequence, id);
  return ok();
}

ucs_status_t UcxTransport::post_send(OpenSend& send) {
  const bool rendezvous = !send.parts.empty();
  ucp_request_param_t param = {};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                       UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_DATATYPE;
  param.flags = static_cast<unsigned>(rendezvous ? UCP_AM_SEND_FLAG_RNDV : UCP_AM_SEND_FLAG_EAGER);
  // Scattered even if it is one part: see ucx_transport.h.
  param.datatype = rendezvous ? ucp_dt_make_iov() : ucp_dt_make_contig(1);
  param.cb.send = &on_sent;
  param.user_data = &send;
  const void* const buffer =
      rendezvous ? static_cast<const void*>(send.parts.data()) : send.eager.data();
  const ucs_status_ptr_t request =
      ucp_am_send_nbx(send.link->endpoint, offer_message, send.header.data(), send.header.size(),
                      buffer, rendezvous ? send.parts.size() : send.eager.size(), &param);
  if (UCS_PTR_IS_ERR(request)) return UCS_PTR_STATUS(request);
  send.posted = request != nullptr;
  if (send.posted) ++send.link->operations;
  return UCS_OK;
}

void UcxTransport::on_sent(void* request, ucs_status_t status, void* user_data) {
  auto& send = *static_cast<OpenSend*>(user_data);
  ucp_request_free(request);
  send.posted = false;
  --send.link->operations;
  send.link->last_heard = monotonic_now();
  if (status != UCS_OK) {
    fail(*send.link, Status::peer_lost, ucx_error("send", status));
  } else if (send.verdict) {
    send.link->owner->finished_sends_.push_back(send.id);
  }
}

void UcxTransport::on_verdict(Link& link, const ControlHeader& header) {
  Peer& peer = peers_.at(link.peer);
  const auto found = peer.sends.find(header.sequence);
  if (found == peer.sends.end()) {
    fail(link, Status::peer_lost, {Reason::protocol_violation, "verdict about no open send"});
    return;
  }
  OpenSend& send = sends_.at(found->second);
  peer.sends.erase(found);
  // A number of a newer peer is a failure, never a success (COR-20).
  send.verdict = header.status <= static_cast<std::uint32_t>(Status::failed)
                     ? static_cast<Status>(header.status)
                     : Status::failed;
  if (!send.posted) finished_sends_.push_back(send.id);
}

void UcxTransport::end_finished_sends() {
  for (const SendId id : std::exchange(finished_sends_, {})) {
    const auto found = sends_.find(id);
    events_.emplace_back(SendDone{id, *found->second.verdict});
    sends_.erase(found);
  }
}

void UcxTransport::cancel_send(SendId id) {
  const auto found = sends_.find(id);
  if (found == sends_.end() || found->second.cancelled_at) return;
  OpenSend& send = found->second;
  send.cancelled_at = monotonic_now();
  post_control(*send.link, {ControlKind::cancel, 0, send.sequence});
}

}  // namespace baton::transport::ucx
