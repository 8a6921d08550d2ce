#include "runtime.h"

#include <cstdlib>

#include <fmt/format.h>

#include "baton/transport/transport.h"

#include "address.h"
#include "wire.h"

namespace baton::transport::ucx {
namespace {

struct Setting {
  const char* name;  ///< without the prefix UCX_
  std::string value;
};

/// Ours, unless the user's environment has the same name.
ucs_status_t apply(ucp_config_t* config, const Setting& setting) {
  const std::string variable = fmt::format("UCX_{}", setting.name);
  if (std::getenv(variable.c_str()) != nullptr) return UCS_OK;
  constexpr std::string_view tcp = "TCP_";
  if (std::string_view(setting.name).starts_with(tcp)) {
    // UCX 1.13 knows a transport's settings without their prefix here, later releases with it; a
    // name that is not known is ignored by either.
    const char* const bare = setting.name + tcp.size();
    const ucs_status_t status = ucp_config_modify(config, bare, setting.value.c_str());
    if (status != UCS_OK) return status;
  }
  return ucp_config_modify(config, setting.name, setting.value.c_str());
}

std::vector<Setting> settings_for(const std::string& device) {
  return {
      {"TLS", "tcp"},
      {"NET_DEVICES", device},
      {"RNDV_SCHEME", "get_zcopy"},
      // Measured: 1.2 GB/s with UCX's own 8 KiB, more than 4 GB/s with these (loopback).
      {"TCP_TX_SEG_SIZE", "256k"},
      {"TCP_RX_SEG_SIZE", "256k"},
      // A segment of 4 KiB extents in one system call; UCX's own 6 would cut it into many.
      {"TCP_MAX_IOV", "64"},
      // A put names an address of the receiver: never used by us, so never offered.
      {"TCP_PUT_ENABLE", "n"},
      // A lost peer is an event of ours, not a line on standard output.
      {"LOG_LEVEL", "fatal"},
  };
}

}  // namespace

Error ucx_error(const char* step, ucs_status_t status) {
  return {Reason::transport_failed, fmt::format("UCX: {}: {}", step, ucs_status_string(status))};
}

Runtime::~Runtime() {
  if (listener_ != nullptr) ucp_listener_destroy(listener_);
  if (worker_ != nullptr) ucp_worker_destroy(worker_);
  if (context_ != nullptr) ucp_cleanup(context_);
}

Result<void> Runtime::start(const Options& options) {
  BATON_TRY(make_context(options));
  return make_worker();
}

Result<void> Runtime::make_context(const Options& options) {
  bind_address_ = options.bind_address;
  const Result<SocketAddress> address = parse_socket_address(bind_address_);
  if (address.has_error()) return Error(Reason::bad_config, address.error().message());
  const std::string device = device_of(*address);
  if (device.empty() || is_wildcard(*address)) {
    return Error(Reason::bad_config,
                 fmt::format("no network device has the address {}: bind to the one that peers "
                             "connect to",
                             bind_address_));
  }
  ucp_config_t* config = nullptr;
  ucs_status_t status = ucp_config_read(nullptr, nullptr, &config);
  if (status != UCS_OK) return ucx_error("reading its configuration", status);
  for (const Setting& setting : settings_for(device)) {
    status = apply(config, setting);
    if (status != UCS_OK) {
      ucp_config_release(config);
      return ucx_error(setting.name, status);
    }
  }
  ucp_params_t params = {};
  params.field_mask = UCP_PARAM_FIELD_FEATURES;
  params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  status = ucp_init(&params, config, &context_);
  ucp_config_release(config);
  if (status != UCS_OK) return ucx_error("start", status);
  return ok();
}

Result<void> Runtime::make_worker() {
  ucp_worker_params_t params = {};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  params.thread_mode = UCS_THREAD_MODE_SINGLE;
  ucs_status_t status = ucp_worker_create(context_, &params, &worker_);
  if (status != UCS_OK) return ucx_error("worker", status);
  status = ucp_worker_get_efd(worker_, &event_descriptor_);
  if (status != UCS_OK) return ucx_error("event descriptor", status);
  ucp_worker_attr_t attributes = {};
  attributes.field_mask = UCP_WORKER_ATTR_FIELD_MAX_AM_HEADER;
  status = ucp_worker_query(worker_, &attributes);
  if (status != UCS_OK) return ucx_error("worker attributes", status);
  if (attributes.max_am_header < max_header_bytes + sizeof(OfferHeader)) {
    return Error(Reason::bad_config,
                 fmt::format("UCX carries headers of {} bytes, {} are needed: unset "
                             "UCX_TCP_TX_SEG_SIZE or raise it",
                             attributes.max_am_header, max_header_bytes + sizeof(OfferHeader)));
  }
  return ok();
}

Result<void> Runtime::listen(ucp_listener_conn_callback_t handler, void* argument) {
  BATON_ASSIGN(const SocketAddress address, parse_socket_address(bind_address_));
  ucp_listener_params_t params = {};
  params.field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR | UCP_LISTENER_PARAM_FIELD_CONN_HANDLER;
  params.sockaddr.addr = address.get();
  params.sockaddr.addrlen = address.size;
  params.conn_handler.cb = handler;
  params.conn_handler.arg = argument;
  ucs_status_t status = ucp_listener_create(worker_, &params, &listener_);
  if (status != UCS_OK) {
    return Error(Reason::transport_failed, fmt::format("UCX cannot listen at {}: {}", bind_address_,
                                                       ucs_status_string(status)));
  }
  ucp_listener_attr_t attributes = {};
  attributes.field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR;
  status = ucp_listener_query(listener_, &attributes);
  if (status != UCS_OK) return ucx_error("listener address", status);
  listen_address_ = format_socket_address({attributes.sockaddr, address.size});
  return ok();
}

}  // namespace baton::transport::ucx
