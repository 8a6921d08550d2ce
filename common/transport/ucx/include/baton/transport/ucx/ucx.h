// The transport between hosts: UCX active messages with a header, payload by rendezvous into the
// memory that the receiver chose.
#pragma once

#include <memory>

#include "baton/base/result.h"
#include "baton/transport/options.h"
#include "baton/transport/transport.h"

namespace baton::transport {

/// Listens at options.bind_address. Unless the user's environment says otherwise: tcp only (other
/// UCX transports do not report a peer's death), 256 KiB segments, rendezvous by get, and only the
/// network device of the bind address. Neither encrypted nor authenticated: for loopback and
/// trusted networks only (R31). Reason::bad_config for a bad address, Reason::transport_failed if
/// UCX refuses.
///
/// Made on one thread and used from another is fine, as long as the second starts after the first
/// is done with it.
Result<std::unique_ptr<Transport>> make_ucx(const Options& options);

}  // namespace baton::transport
