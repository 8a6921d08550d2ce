#include "progress.h"

#include <algorithm>

#include <fmt/format.h>
#include <unistd.h>

namespace baton::cli {
namespace {

constexpr int bar_cells = 24;
constexpr Duration redraw_time = std::chrono::milliseconds(50);
constexpr Duration plain_line_time = std::chrono::seconds(5);

}  // namespace

std::string bar_text(double fraction) {
  const double share = std::clamp(fraction, 0.0, 1.0);
  const int full = static_cast<int>(share * bar_cells);
  return fmt::format("[{}{}] {:3d} %", std::string(static_cast<std::size_t>(full), '#'),
                     std::string(static_cast<std::size_t>(bar_cells - full), '-'),
                     static_cast<int>(share * 100));
}

Progress::Progress(std::string label, bool on_terminal)
    : label_(std::move(label)), on_terminal_(on_terminal), last_drawn_(monotonic_now()) {}

Progress::Progress(std::string label) : Progress(std::move(label), isatty(STDERR_FILENO) != 0) {}

void Progress::set(double fraction) {
  const int percent = static_cast<int>(std::clamp(fraction, 0.0, 1.0) * 100);
  const Instant now = monotonic_now();
  if (percent == last_percent_) return;
  const bool first = last_percent_ < 0;
  if (now - last_drawn_ < (on_terminal_ ? redraw_time : plain_line_time) &&
      !(first && on_terminal_)) {
    return;
  }
  last_percent_ = percent;
  last_drawn_ = now;
  if (on_terminal_) {
    std::fprintf(stderr, "\r%s %s", label_.c_str(), bar_text(fraction).c_str());
  } else {
    std::fprintf(stderr, "%s: %d %%\n", label_.c_str(), percent);
  }
  std::fflush(stderr);
}

void Progress::finish(const std::string& outcome) {
  abandon();
  std::fprintf(stderr, "%s: %s\n", label_.c_str(), outcome.c_str());
}

void Progress::abandon() {
  if (on_terminal_ && last_percent_ >= 0) std::fputs("\r\033[K", stderr);
  last_percent_ = -1;
}

}  // namespace baton::cli
