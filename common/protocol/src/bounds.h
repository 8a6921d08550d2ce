// Ranges of numbers inside one message (R3, R7): what decides something is refused outside its
// range, what is only shown or counted is cut to it, so that no sum of either overflows.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "baton/base/result.h"
#include "baton/base/time.h"

namespace baton::protocol {

// Far above every configured duration and sequence, far below what overflows once it is added up.
inline constexpr std::int64_t max_ms = 30LL * 24 * 3600 * 1000;
inline constexpr std::int32_t max_index = 1 << 28;

inline Error violation(const std::string& what) {
  return {Reason::protocol_violation, "control message: " + what};
}

/// How long a silent owner's requests are held.
inline Result<std::int64_t> lease_of(std::int64_t ms) {
  if (ms < 1 || ms > max_ms) return violation("a lease is out of range");
  return ms;
}

/// An index or a number of generated tokens.
inline Result<std::int32_t> index_of(std::int32_t index) {
  if (index < 0 || index > max_index) return violation("a token index is out of range");
  return index;
}

inline Duration duration_of(std::int64_t ns) {
  return Duration(std::clamp<std::int64_t>(ns, 0, max_ms * 1'000'000));
}

inline std::int64_t count_of(std::int64_t count) {
  return std::clamp<std::int64_t>(count, 0, std::int64_t{1} << 50);
}
inline std::int32_t count_of(std::int32_t count) {
  return std::clamp<std::int32_t>(count, 0, 1 << 30);
}

}  // namespace baton::protocol
