#include "context.h"

#include <cstdlib>
#include <cstring>

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
      // A put names an address of the receiver: never used by us, so never offered.
      {"TCP_PUT_ENABLE", "n"},
      // A peer that does not answer must not hold up the others (UCX connects blocking otherwise).
      {"TCP_CONN_NB", "y"},
      // A lost peer is an event of ours, not a line on standard output.
      {"LOG_LEVEL", "fatal"},
  };
}

}  // namespace

Error ucx_error(const char* step, ucs_status_t status) {
  return {Reason::transport_failed, fmt::format("UCX: {}: {}", step, ucs_status_string(status))};
}

Worker::~Worker() { ucp_worker_destroy(handle_); }

Result<void> Worker::start() {
  ucs_status_t status = ucp_worker_get_efd(handle_, &event_descriptor_);
  if (status != UCS_OK) return ucx_error("event descriptor", status);
  ucp_worker_attr_t attributes = {};
  attributes.field_mask = UCP_WORKER_ATTR_FIELD_MAX_AM_HEADER;
  status = ucp_worker_query(handle_, &attributes);
  if (status != UCS_OK) return ucx_error("worker attributes", status);
  if (attributes.max_am_header < max_header_bytes + sizeof(OfferHeader)) {
    return Error(Reason::bad_config,
                 fmt::format("UCX carries headers of {} bytes, {} are needed: unset "
                             "UCX_TCP_TX_SEG_SIZE or raise it",
                             attributes.max_am_header, max_header_bytes + sizeof(OfferHeader)));
  }
  ucp_address_t* address = nullptr;
  std::size_t bytes = 0;
  status = ucp_worker_get_address(handle_, &address, &bytes);
  if (status != UCS_OK) return ucx_error("worker address", status);
  const auto* const first = reinterpret_cast<const std::byte*>(address);
  address_.assign(first, first + bytes);
  ucp_worker_release_address(handle_, address);
  return ok();
}

Result<void> Worker::set_handler(unsigned message, ucp_am_recv_callback_t callback,
                                 void* argument) {
  ucp_am_handler_param_t param = {};
  param.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                     UCP_AM_HANDLER_PARAM_FIELD_ARG;
  param.id = message;
  param.cb = callback;
  param.arg = argument;
  const ucs_status_t status = ucp_worker_set_am_recv_handler(handle_, &param);
  if (status != UCS_OK) return ucx_error("message handler", status);
  return ok();
}

Context::~Context() {
  if (handle_ != nullptr) ucp_cleanup(handle_);
}

Result<void> Context::start(const Options& options) {
  const Result<SocketAddress> address = parse_socket_address(options.bind_address);
  if (address.has_error()) return Error(Reason::bad_config, address.error().message());
  const std::string device = device_of(*address);
  if (device.empty() || is_wildcard(*address)) {
    return Error(Reason::bad_config,
                 fmt::format("no network device has the address {}: bind to the one that peers "
                             "connect to",
                             options.bind_address));
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
  status = ucp_init(&params, config, &handle_);
  ucp_config_release(config);
  if (status != UCS_OK) return ucx_error("start", status);
  return ok();
}

Result<std::unique_ptr<Worker>> Context::make_worker() const {
  ucp_worker_params_t params = {};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  params.thread_mode = UCS_THREAD_MODE_SINGLE;
  ucp_worker_h handle = nullptr;
  const ucs_status_t status = ucp_worker_create(handle_, &params, &handle);
  if (status != UCS_OK) return ucx_error("worker", status);
  auto worker = std::make_unique<Worker>(handle);
  BATON_TRY(worker->start());
  return worker;
}

}  // namespace baton::transport::ucx
