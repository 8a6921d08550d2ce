// SIGTERM and SIGINT: the first one begins the drain, a second one ends the process at once.
#pragma once

#include <functional>
#include <optional>

#include <boost/asio/signal_set.hpp>

#include "baton/base/time.h"
#include "baton/net/io/event_loop.h"

namespace baton::process {

class Drain {
 public:
  /// Signals are caught from now on. `begin` is called once, on the loop.
  Drain(net::EventLoop& loop, std::function<void()> begin);

  /// When it began.
  std::optional<Instant> since() const { return since_; }
  bool has_lasted(Duration time, Instant now) const { return since_ && now - *since_ >= time; }

 private:
  void signalled();
  void wait();

  net::EventLoop& loop_;
  std::function<void()> begin_;
  boost::asio::signal_set signals_;
  std::optional<Instant> since_;
};

}  // namespace baton::process
