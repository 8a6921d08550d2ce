#include "baton/process/program.h"

#include <cstdio>
#include <fstream>

#include <boost/json.hpp>
#include <unistd.h>

#include "baton/net/io/bind.h"

namespace baton::process {
namespace {

/// The sections of one file that serves all programs.
std::vector<std::string> sections_but(std::string_view role) {
  std::vector<std::string> sections = {"router", "prefill", "decode"};
  std::erase(sections, role);
  return sections;
}

}  // namespace

void add_server_options(ConfigTable& table, ServerConfig& c) {
  table.add("node", &c.node, "Name of this node, unique among live processes");
  table.add("admin_listen", &c.admin_listen, "Address of health and metrics; port 0: any free");
  table.add("trusted_network", &c.trusted_network,
            "Allow plain text outside loopback: the network is trusted");
  table.add_path("announce", &c.announce, "File that gets the bound addresses as JSON");
  table.add_enum("log_level", &c.log_level,
                 {{"debug", LogLevel::debug},
                  {"info", LogLevel::info},
                  {"warning", LogLevel::warning},
                  {"error", LogLevel::error}},
                 "Lowest level that is logged");
  check_address(table, "admin_listen", c.admin_listen, c);
}

void check_address(ConfigTable& table, std::string_view name, const Endpoint& endpoint,
                   const ServerConfig& config) {
  table.check([name = std::string(name), &endpoint, &config] {
    return net::check_bind(name, endpoint, config.trusted_network);
  });
}

int run_program(std::string_view role, int argc, const char* const* argv,
                const ServerConfig& config, const std::function<void(ConfigTable&)>& add_options,
                const std::function<int()>& serve) {
  const std::string program = "baton-" + std::string(role);
  ConfigTable table(program, std::string(role), sections_but(role));
  add_options(table);
  const Result<ConfigAction> action = table.load(argc, argv);
  if (!action) {
    std::fprintf(stderr, "%s: %s\n", program.c_str(), action.error().message().c_str());
    return exit_config;
  }
  switch (*action) {
    case ConfigAction::print_help:
      std::fputs(table.help().c_str(), stdout);
      return 0;
    case ConfigAction::print_config:
      std::fputs(table.effective().c_str(), stdout);
      return 0;
    case ConfigAction::print_version:
      std::puts(BATON_VERSION);
      return 0;
    case ConfigAction::run:
      break;
  }
  configure_logging(role, config.log_level);
  return serve();
}

Result<void> announce(const ServerConfig& config, std::string_view role, std::string_view node,
                      const std::vector<std::pair<std::string, Endpoint>>& addresses) {
  boost::json::object said{{"role", role}, {"node", node}, {"pid", getpid()}};
  std::string line;
  for (const auto& [name, endpoint] : addresses) {
    said[name] = endpoint.to_string();
    line += (line.empty() ? "" : ", ") + name + " " + endpoint.to_string();
  }
  log_info("{} {}: {}", role, node, line);
  if (config.announce.empty()) return ok();
  // Whoever waits for the file never sees a part of it.
  const std::string part = config.announce + ".part";
  std::ofstream file(part);
  file << said << "\n";
  file.close();
  if (!file || std::rename(part.c_str(), config.announce.c_str()) != 0) {
    return Error(Reason::bad_config, "announce: cannot write " + config.announce);
  }
  return ok();
}

}  // namespace baton::process
