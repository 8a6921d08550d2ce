#include "baton/process/drain.h"

#include <csignal>
#include <utility>

#include "baton/base/log.h"

namespace baton::process {

Drain::Drain(net::EventLoop& loop, std::function<void()> begin)
    : loop_(loop), begin_(std::move(begin)), signals_(loop.context(), SIGINT, SIGTERM) {
  wait();
}

void Drain::wait() {
  signals_.async_wait([this](const boost::system::error_code& error, int) {
    if (!error) signalled();
  });
}

void Drain::signalled() {
  if (since_) return loop_.stop();
  log_info("draining");
  since_ = monotonic_now();
  wait();
  begin_();
}

}  // namespace baton::process
