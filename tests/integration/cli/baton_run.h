// Runs the real `baton` command, and sees to it that whatever it leaves behind is noticed.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include <sys/types.h>

namespace baton::test {

/// One run of bin/baton. Output and errors go to files. Processes that outlive it become children
/// of the test program and are seen by orphans().
class BatonRun {
 public:
  explicit BatonRun(const std::vector<std::string>& arguments, const std::string& input = "");
  ~BatonRun();
  BatonRun(const BatonRun&) = delete;
  BatonRun& operator=(const BatonRun&) = delete;

  pid_t pid() const { return pid_; }
  std::string out() const;
  std::string err() const;

  /// Waits until the output has this text; false when the process ended before, or after a minute.
  bool wait_for(const std::string& text);
  void signal(int number) const;
  /// Waits for the end; 128 + n when signal n ended it. Fails the test after a minute.
  int end();
  /// The processes that it has started and that live.
  std::vector<pid_t> children() const;

 private:
  bool reap(bool block);

  std::filesystem::path folder_;
  pid_t pid_ = -1;
  bool ended_ = false;
  int status_ = 0;
};

/// Processes left behind by runs that have ended: waits up to half a minute for those that are
/// about to end, kills and counts the rest.
int orphans();

}  // namespace baton::test
