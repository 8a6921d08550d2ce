// One line on standard error about something that takes its time: a bar on a terminal, plain lines
// now and then elsewhere.
#pragma once

#include <cstdio>
#include <string>

#include "baton/base/time.h"

namespace baton::cli {

/// "[#######-----------------]  29 %".
std::string bar_text(double fraction);

class Progress {
 public:
  /// `label` says what is going on: "Loading the model".
  Progress(std::string label, bool on_terminal);
  /// Standard error is a terminal.
  explicit Progress(std::string label);

  /// 0 to 1; drawn when it changed, at most 20 times a second.
  void set(double fraction);
  /// The last line: the label and `outcome`.
  void finish(const std::string& outcome);
  /// Takes the bar away, for an error message to follow.
  void abandon();

 private:
  std::string label_;
  bool on_terminal_;
  int last_percent_ = -1;
  Instant last_drawn_;
};

}  // namespace baton::cli
