// The transport inside one process: two instances exchange through a table of this process.
#pragma once

#include <memory>

#include "baton/transport/options.h"
#include "baton/transport/transport.h"

namespace baton::transport {

/// Addresses are "loopback:<n>", with n unique in this process. Each instance may live on a thread
/// of its own; a payload is copied by the receiver's accept(), so that no receive is ever half
/// done.
std::unique_ptr<Transport> make_loopback(const Options& options);

}  // namespace baton::transport
