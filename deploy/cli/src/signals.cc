#include "signals.h"

#include <ctime>

namespace baton::cli {

Signals::Signals() {
  sigemptyset(&set_);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) sigaddset(&set_, signal);
  pthread_sigmask(SIG_BLOCK, &set_, &before_);
}

Signals::~Signals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

void Signals::wait(Duration patience) {
  const auto whole = std::chrono::duration_cast<std::chrono::seconds>(patience);
  const timespec time{static_cast<std::time_t>(whole.count()),
                      static_cast<long>((patience - whole).count())};
  const int signal = sigtimedwait(&set_, nullptr, &time);
  if (signal > 0 && signal != SIGCHLD) ++stops_;
}

int Signals::stops() {
  const timespec none{};
  for (int signal = 0; (signal = sigtimedwait(&set_, nullptr, &none)) > 0;) {
    if (signal != SIGCHLD) ++stops_;
  }
  return stops_;
}

}  // namespace baton::cli
