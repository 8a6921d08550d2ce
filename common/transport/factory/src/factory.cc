#include "baton/transport/factory/factory.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "baton/transport/loopback/loopback.h"
#include "baton/transport/shm/shm.h"
#include "baton/transport/ucx/ucx.h"

namespace baton::transport {

std::vector<std::string_view> transport_names() { return {"shm", "ucx", "loopback"}; }

Result<std::unique_ptr<Transport>> make_transport(std::string_view name, const Options& options) {
  if (name == "shm") return make_shm(options);
  if (name == "ucx") return make_ucx(options);
  if (name == "loopback") return make_loopback(options);
  return Error(Reason::bad_config, fmt::format("no transport '{}'; there are: {}", name,
                                               fmt::join(transport_names(), ", ")));
}

}  // namespace baton::transport
