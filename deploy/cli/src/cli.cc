#include "baton/deploy/cli/cli.h"

#include <cstdio>

#include "baton/base/log.h"

#include "bench_engine.h"
#include "bench_serve.h"
#include "chat.h"
#include "complete.h"
#include "options.h"
#include "status.h"
#include "up.h"

namespace baton::cli {
namespace {

int run(const CompleteOptions& options) { return complete(options); }
int run(const ChatOptions& options) { return chat(options); }
int run(const StatusOptions& options) { return status(options); }
int run(const UpOptions& options) { return up(options); }
int run(const BenchEngineOptions& options) { return bench_engine(options); }
int run(const BenchServeOptions& options) { return bench_serve(options); }
int run(const VersionOptions&) {
  std::puts("baton " BATON_VERSION);
  return 0;
}

}  // namespace

int cli_main(int argc, const char* const* argv) {
  configure_logging("baton", LogLevel::warning);
  const ParsedCommand parsed =
      parse_command(std::vector<std::string>(argv + (argc > 0 ? 1 : 0), argv + argc));
  if (const auto* stop = std::get_if<Stop>(&parsed)) {
    std::fputs(stop->text.c_str(), stop->code == 0 ? stdout : stderr);
    return stop->code;
  }
  return std::visit([](const auto& options) { return run(options); }, std::get<Command>(parsed));
}

}  // namespace baton::cli
