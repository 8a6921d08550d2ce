// The receiver's side: nothing moves into our memory before accept() has named where to.
#include <algorithm>
#include <cstring>
#include <utility>

#include "baton/base/check.h"

#include "ucx_transport.h"

namespace baton::transport::ucx {
namespace {

constexpr std::size_t sink_bytes = 256 * 1024;

}  // namespace

/// False: the offer breaks a rule and the link has failed.
bool UcxTransport::check_offer(Link& link, const void* header, std::size_t header_bytes,
                               std::size_t bytes, bool eager) {
  OfferHeader prefix;
  bool good = header_bytes >= sizeof(prefix) && header_bytes <= sizeof(prefix) + max_header_bytes &&
              bytes <= options_.max_payload_bytes && (!eager || bytes <= max_eager_bytes);
  if (good) {
    std::memcpy(&prefix, header, sizeof(prefix));
    const Peer& peer = peers_.at(link.peer);
    good = prefix.sequence == peer.next_offer && peer.offers.size() < options_.max_open_sends;
  }
  if (!good) {
    fail(link, Status::peer_lost,
         {Reason::protocol_violation, "offer malformed, too large, out of order or too many"});
  }
  return good;
}

ucs_status_t UcxTransport::on_offer(void* argument, const void* header, std::size_t header_bytes,
                                    void* data, std::size_t bytes,
                                    const ucp_am_recv_param_t* param) {
  Link& link = *static_cast<Link*>(argument);
  UcxTransport& self = *link.owner;
  const bool rendezvous = (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0;
  link.last_heard = monotonic_now();
  if (link.failure || !self.check_offer(link, header, header_bytes, bytes, !rendezvous)) {
    return UCS_OK;
  }
  Peer& peer = self.peers_.at(link.peer);
  const OfferId id(self.next_offer_++);
  OpenOffer& offer = self.offers_[id];
  offer.id = id;
  offer.link = &link;
  offer.sequence = peer.next_offer++;
  offer.bytes = bytes;
  peer.offers.emplace(offer.sequence, id);
  const auto* const first = static_cast<const std::byte*>(header);
  self.events_.emplace_back(
      Offered{id, link.peer, {first + sizeof(OfferHeader), first + header_bytes}, bytes});
  if (rendezvous) {
    offer.rendezvous = data;
    return UCS_INPROGRESS;  // keeps the descriptor
  }
  const auto* const payload = static_cast<const std::byte*>(data);
  if (bytes > 0) offer.eager.assign(payload, payload + bytes);
  return UCS_OK;
}

void UcxTransport::accept(OfferId id, std::span<const Extent> extents) {
  check_accept(memory_, extents);
  const auto found = offers_.find(id);
  if (found == offers_.end()) {
    events_.emplace_back(ReceiveDone{id, Status::cancelled});
    return;
  }
  OpenOffer& offer = found->second;
  BATON_CHECK(!offer.accepted);
  offer.accepted = true;
  if (offer.link->failure) return;  // ends with the peer
  offer.status = received_status(offer.bytes, total_bytes(extents));
  if (offer.rendezvous != nullptr) {
    post_receive(offer, extents);
  } else {
    ScatterCopy({offer.eager}, {extents.begin(), extents.end()}).step(max_eager_bytes);
    finished_receives_.push_back(id);
  }
  end_finished_receives();
}

void UcxTransport::post_receive(OpenOffer& offer, std::span<const Extent> extents) {
  std::size_t rest = offer.bytes;
  for (const Extent& extent : extents) {
    const std::size_t bytes = std::min(extent.bytes, rest);
    if (bytes > 0) offer.parts.push_back({extent.data, bytes});
    rest -= bytes;
  }
  // UCX drops a message that does not fit whole: what there is no room for goes into the sink.
  if (rest > 0) sink_.resize(sink_bytes);
  for (; rest > 0; rest -= std::min(rest, sink_bytes)) {
    offer.parts.push_back({sink_.data(), std::min(rest, sink_bytes)});
  }
  ucp_request_param_t param = {};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                       UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
  param.datatype = ucp_dt_make_iov();
  param.cb.recv_am = &on_received;
  param.user_data = &offer;
  offer.posted = true;
  ++offer.link->operations;
  const ucs_status_ptr_t request =
      ucp_am_recv_data_nbx(offer.link->worker->get(), std::exchange(offer.rendezvous, nullptr),
                           offer.parts.data(), offer.parts.size(), &param);
  if (!UCS_PTR_IS_PTR(request)) {
    --offer.link->operations;
    offer.posted = false;
    if (UCS_PTR_IS_ERR(request)) offer.status = Status::failed;
    finished_receives_.push_back(offer.id);
  }
}

void UcxTransport::on_received(void* request, ucs_status_t status, std::size_t bytes,
                               void* user_data) {
  auto& offer = *static_cast<OpenOffer*>(user_data);
  ucp_request_free(request);
  offer.posted = false;
  --offer.link->operations;
  offer.link->last_heard = monotonic_now();
  if (offer.link->failure) return;  // ends with the peer
  // Anything but a whole payload is no success, whatever it is called (COR-20).
  if (status != UCS_OK || bytes != offer.bytes) offer.status = Status::failed;
  offer.link->owner->finished_receives_.push_back(offer.id);
}

void UcxTransport::end_finished_receives() {
  for (const OfferId id : std::exchange(finished_receives_, {})) {
    const OpenOffer& offer = offers_.at(id);
    end_offer(id, offer.cancelled_at ? Status::cancelled : offer.status);
  }
}

/// Tells the sender, and the receiver if it had accepted.
void UcxTransport::end_offer(OfferId id, Status status) {
  const auto found = offers_.find(id);
  OpenOffer& offer = found->second;
  if (offer.rendezvous != nullptr) ucp_am_data_release(offer.link->worker->get(), offer.rendezvous);
  peers_.at(offer.link->peer).offers.erase(offer.sequence);
  post_control(*offer.link,
               {ControlKind::verdict, static_cast<std::uint32_t>(status), offer.sequence});
  if (offer.accepted) events_.emplace_back(ReceiveDone{id, status});
  offers_.erase(found);
}

void UcxTransport::refuse(OfferId id) {
  const auto found = offers_.find(id);
  if (found == offers_.end() || found->second.link->failure) return;
  BATON_CHECK(!found->second.accepted);
  end_offer(id, Status::refused);
}

void UcxTransport::cancel_receive(OfferId id) {
  const auto found = offers_.find(id);
  if (found == offers_.end() || !found->second.posted || found->second.cancelled_at) return;
  found->second.cancelled_at = monotonic_now();
}

void UcxTransport::on_cancel(Link& link, std::uint64_t sequence) {
  const Peer& peer = peers_.at(link.peer);
  // Not found: the verdict and the cancel crossed. Accepted: the payload is on its way already.
  const auto found = peer.offers.find(sequence);
  if (found == peer.offers.end() || offers_.at(found->second).accepted) return;
  end_offer(found->second, Status::cancelled);
}

}  // namespace baton::transport::ucx
