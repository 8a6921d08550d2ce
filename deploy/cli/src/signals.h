// The signals that end or interrupt `baton up`, as something to be asked about: nothing runs in a
// signal handler.
#pragma once

#include <csignal>

#include "baton/base/time.h"

namespace baton::cli {

/// While it lives SIGINT, SIGTERM, SIGHUP and SIGCHLD are blocked in this thread and collected
/// here. One at a time, made before any thread.
class Signals {
 public:
  Signals();
  ~Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  /// Returns early when one of the signals came.
  void wait(Duration patience);
  /// How often the user asked to stop.
  int stops();

 private:
  sigset_t set_;
  sigset_t before_;
  int stops_ = 0;
};

}  // namespace baton::cli
