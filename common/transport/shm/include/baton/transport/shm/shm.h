// Same-host transport: the receiver maps the sender's registered memory files for reading and
// copies out of them. Nobody can write into another's memory.
#pragma once

#include <memory>

#include "baton/base/result.h"
#include "baton/transport/options.h"
#include "baton/transport/transport.h"

namespace baton::transport {

/// Listens on a random abstract unix socket. connect() refuses the address of another host, boot or
/// user with Reason::transport_failed. Reason::io_error if the socket cannot be made.
Result<std::unique_ptr<Transport>> make_shm(const Options& options);

}  // namespace baton::transport
