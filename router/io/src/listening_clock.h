// Time in which this process listened. Silence is measured on it: what a peer said while the
// machine, or a signal, held us back still waits in our sockets, and would be heard after the
// verdict.
#pragma once

#include <algorithm>

#include "baton/base/time.h"

namespace baton::router {

class ListeningClock {
 public:
  /// A turn of the loop that takes longer than `longest_turn` is held back, not listening.
  explicit ListeningClock(Duration longest_turn) : longest_turn_(longest_turn) {}

  /// Called in each turn with the machine's clock, which never goes back.
  void turn(Instant now) {
    if (last_turn_ != Instant()) listened_ += std::min(now - last_turn_, longest_turn_);
    last_turn_ = now;
  }

  /// As of the last turn; to be compared with other values of this clock only.
  Instant now() const { return listened_; }

 private:
  const Duration longest_turn_;
  Instant last_turn_;
  Instant listened_;
};

}  // namespace baton::router
