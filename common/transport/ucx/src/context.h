// UCX's objects with owners: one context for the transport, one worker for each connection.
//
// A worker of its own gives each connection its own sockets, message handlers and end: UCX pairs
// the two endpoints of two workers without doubt, and a destroyed worker cannot touch memory.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <ucp/api/ucp.h>

#include "baton/base/result.h"
#include "baton/transport/options.h"

namespace baton::transport::ucx {

class Worker {
 public:
  explicit Worker(ucp_worker_h handle) : handle_(handle) {}
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  ucp_worker_h get() const { return handle_; }
  int event_descriptor() const { return event_descriptor_; }
  /// Opaque; where the other side's endpoint connects to.
  std::span<const std::byte> address() const { return address_; }

  Result<void> set_handler(unsigned message, ucp_am_recv_callback_t callback, void* argument);

 private:
  friend class Context;
  Result<void> start();

  ucp_worker_h handle_;
  int event_descriptor_ = -1;
  std::vector<std::byte> address_;
};

class Context {
 public:
  Context() = default;
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  /// With the network device of options.bind_address. Reason::transport_failed, Reason::bad_config.
  Result<void> start(const Options& options);

  /// Does not outlive the context.
  Result<std::unique_ptr<Worker>> make_worker() const;

 private:
  ucp_context_h handle_ = nullptr;
};

/// Reason::transport_failed with UCX's own words.
Error ucx_error(const char* step, ucs_status_t status);

}  // namespace baton::transport::ucx
