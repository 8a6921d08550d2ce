#include "baton/router/api/text_stream.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace baton::router {

/// Where the occurrence begins that is complete first (of several that end together, the longest):
/// it does not depend on how the text was cut into pieces.
std::size_t StopMatcher::first_match() const {
  std::size_t first = std::string::npos;
  std::size_t first_end = std::string::npos;
  for (const std::string& stop : stops_) {
    const std::size_t begin = held_.find(stop);
    if (begin == std::string::npos) continue;
    const std::size_t end = begin + stop.size();
    if (end > first_end || (end == first_end && begin > first)) continue;
    first = begin;
    first_end = end;
  }
  return first;
}

/// Length of the longest end of the held text that begins some stop string.
std::size_t StopMatcher::possible_prefix() const {
  std::size_t longest = 0;
  for (const std::string& stop : stops_) {
    for (std::size_t length = std::min(held_.size(), stop.size() - 1); length > longest; --length) {
      if (std::string_view(held_).substr(held_.size() - length) ==
          std::string_view(stop).substr(0, length)) {
        longest = length;
        break;
      }
    }
  }
  return longest;
}

std::string StopMatcher::push(std::string_view text) {
  if (matched_) return "";
  held_.append(text);
  const std::size_t match = first_match();
  if (match != std::string::npos) {
    matched_ = true;
    std::string out = held_.substr(0, match);
    held_.clear();
    return out;
  }
  const std::size_t keep = possible_prefix();
  std::string out = held_.substr(0, held_.size() - keep);
  held_.erase(0, out.size());
  return out;
}

std::string StopMatcher::flush() { return std::exchange(held_, {}); }

}  // namespace baton::router
