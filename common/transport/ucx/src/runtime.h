// UCX context, worker and listener, in the order they are made and undone.
#pragma once

#include <memory>
#include <string>

#include <ucp/api/ucp.h>

#include "baton/base/result.h"
#include "baton/transport/options.h"

namespace baton::transport::ucx {

class Runtime {
 public:
  Runtime() = default;
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  /// Everything but the listener. Reason::transport_failed, Reason::bad_config.
  Result<void> start(const Options& options);

  /// From now on `handler` (called inside progress) gets connection requests.
  Result<void> listen(ucp_listener_conn_callback_t handler, void* argument);

  ucp_worker_h worker() const { return worker_; }
  ucp_listener_h listener() const { return listener_; }
  int event_descriptor() const { return event_descriptor_; }
  /// "ip:port" that the listener got.
  const std::string& listen_address() const { return listen_address_; }

 private:
  Result<void> make_context(const Options& options);
  Result<void> make_worker();

  std::string bind_address_;
  std::string listen_address_;
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  ucp_listener_h listener_ = nullptr;
  int event_descriptor_ = -1;
};

/// Reason::transport_failed with UCX's own words.
Error ucx_error(const char* step, ucs_status_t status);

}  // namespace baton::transport::ucx
