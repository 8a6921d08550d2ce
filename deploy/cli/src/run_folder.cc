#include "run_folder.h"

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

namespace baton::cli {

Result<RunFolder> RunFolder::create(const std::string& keep_logs) {
  const char* variable = std::getenv("TMPDIR");
  const std::string base = variable != nullptr && *variable != '\0' ? variable : "/tmp";
  std::string path = base + "/baton-XXXXXX";
  if (mkdtemp(path.data()) == nullptr) {
    return Error(Reason::bad_config, fmt::format("{}: {}", base, std::strerror(errno)));
  }
  RunFolder out(path, keep_logs.empty() ? path : keep_logs);
  std::error_code error;
  std::filesystem::create_directories(out.logs_, error);
  if (error) {
    return Error(Reason::bad_config, fmt::format("keep-logs: {}: {}", keep_logs, error.message()));
  }
  return out;
}

RunFolder::RunFolder(RunFolder&& other) noexcept
    : path_(std::exchange(other.path_, {})), logs_(std::move(other.logs_)) {}

RunFolder::~RunFolder() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

}  // namespace baton::cli
