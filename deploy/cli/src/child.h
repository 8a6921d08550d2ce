// A process started by this one. It cannot outlive it: the kernel kills it when its parent dies.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "baton/base/result.h"

namespace baton::cli {

class Child {
 public:
  /// Output and errors go to a new file at `log`; there is no input. It gets a process group of its
  /// own, so that a Ctrl-C on the terminal reaches it through its parent only. The kernel's promise
  /// holds for the calling thread: it must live as long as the child. Reason::bad_config when the
  /// program cannot be run or the log not be written.
  static Result<Child> start(std::string name, const std::string& program,
                             const std::vector<std::string>& arguments, const std::string& log);
  Child(Child&& other) noexcept;
  Child& operator=(Child&&) = delete;
  /// Kills what still runs.
  ~Child();

  const std::string& name() const { return name_; }
  const std::string& log() const { return log_; }

  bool running();
  void signal(int number);
  /// Once it has ended: "exited with code 78" and the like.
  std::string ending() const;
  /// Its exit code; nothing while it runs or when a signal ended it.
  std::optional<int> code() const;

 private:
  Child(std::string name, std::string log, pid_t pid)
      : name_(std::move(name)), log_(std::move(log)), pid_(pid) {}

  std::string name_;
  std::string log_;
  pid_t pid_ = -1;  ///< -1: moved from, or ended and reaped
  int status_ = 0;
};

/// The last lines of a text file, each with `indent` before it; empty when it cannot be read.
std::string tail(const std::string& path, std::size_t lines, const std::string& indent);

}  // namespace baton::cli
