// The start of a server program, whatever its role: options, logging, exit codes, the file that
// says where it listens.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "baton/base/config.h"
#include "baton/base/endpoint.h"
#include "baton/base/exit_code.h"
#include "baton/base/log.h"
#include "baton/base/result.h"

namespace baton::process {

/// What each role's configuration derives from.
struct ServerConfig {
  std::string node;       ///< unique among live processes; empty: the role makes one up
  Endpoint admin_listen;  ///< port 0: chosen by the system
  bool trusted_network = false;
  std::string announce;  ///< file that gets the bound addresses as JSON once they are known
  LogLevel log_level = LogLevel::info;
};

void add_server_options(ConfigTable& table, ServerConfig& config);

/// The address of option `name` is in loopback, or the network is trusted.
void check_address(ConfigTable& table, std::string_view name, const Endpoint& endpoint,
                   const ServerConfig& config);

/// The main function of the program "baton-<role>". `add_options` binds all of the role's options,
/// those of add_server_options() too. Prints what the options ask for, or sets up logging and
/// returns what `serve` does; exit_config when the options cannot be used.
int run_program(std::string_view role, int argc, const char* const* argv,
                const ServerConfig& config, const std::function<void(ConfigTable&)>& add_options,
                const std::function<int()>& serve);

/// Logs where the process listens and writes `config.announce`. Reason::bad_config when it cannot.
Result<void> announce(const ServerConfig& config, std::string_view role, std::string_view node,
                      const std::vector<std::pair<std::string, Endpoint>>& addresses);

}  // namespace baton::process
