// Small messages about sends and offers. They travel on the same endpoint as the offers, so that a
// cancel never overtakes what it cancels.
#include <cstring>
#include <memory>

#include "ucx_transport.h"

namespace baton::transport::ucx {

void UcxTransport::post_control(Link& link, const ControlHeader& header) {
  if (link.failure) return;
  auto message = std::make_unique<ControlMessage>(ControlMessage{&link, header});
  ucp_request_param_t param = {};
  param.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_AM_SEND_FLAG_EAGER;
  param.cb.send = &on_control_sent;
  param.user_data = message.get();
  const ucs_status_ptr_t request = ucp_am_send_nbx(link.endpoint, control_message, &message->header,
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
    fail(*message->link, Status::peer_lost, ucx_error("control message", status));
  }
}

ucs_status_t UcxTransport::on_control(void* argument, const void* header, std::size_t header_bytes,
                                      void*, std::size_t bytes, const ucp_am_recv_param_t*) {
  Link& link = *static_cast<Link*>(argument);
  link.last_heard = monotonic_now();
  if (link.failure) return UCS_OK;
  ControlHeader control;
  if (header_bytes == sizeof(control) && bytes == 0) {
    std::memcpy(&control, header, sizeof(control));
    switch (control.kind) {
      case ControlKind::verdict:
        link.owner->on_verdict(link, control);
        return UCS_OK;
      case ControlKind::cancel:
        link.owner->on_cancel(link, control.sequence);
        return UCS_OK;
    }
  }
  fail(link, Status::peer_lost, {Reason::protocol_violation, "malformed control message"});
  return UCS_OK;
}

}  // namespace baton::transport::ucx
