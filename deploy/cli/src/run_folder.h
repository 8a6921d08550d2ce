// The folder of one run of `baton up`: announcements and logs of its nodes. Private to the user,
// removed at the end.
#pragma once

#include <string>

#include "baton/base/result.h"

namespace baton::cli {

class RunFolder {
 public:
  /// `keep_logs`: a folder for the logs, made when missing and never removed; empty: they go the
  /// way of the rest. Reason::bad_config when a folder cannot be made.
  static Result<RunFolder> create(const std::string& keep_logs);
  RunFolder(RunFolder&& other) noexcept;
  RunFolder& operator=(RunFolder&&) = delete;
  ~RunFolder();

  std::string announcement(const std::string& node) const { return path_ + "/" + node + ".json"; }
  std::string log(const std::string& node) const { return logs_ + "/" + node + ".log"; }

 private:
  RunFolder(std::string path, std::string logs) : path_(std::move(path)), logs_(std::move(logs)) {}

  std::string path_;  ///< empty: moved from
  std::string logs_;
};

}  // namespace baton::cli
