// Makes a transport by name.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "baton/base/result.h"
#include "baton/transport/options.h"
#include "baton/transport/transport.h"

namespace baton::transport {

/// The names that are compiled in, the one to prefer on one host first.
std::vector<std::string_view> transport_names();

/// "shm", "ucx" or "loopback". Reason::bad_config for another name, with the list of names.
Result<std::unique_ptr<Transport>> make_transport(std::string_view name, const Options& options);

}  // namespace baton::transport
