// Headers of the active messages, host byte order (both ends are of one kind of machine, as the
// fingerprint demands).
#pragma once

#include <cstddef>
#include <cstdint>

namespace baton::transport::ucx {

inline constexpr unsigned control_message = 1;
inline constexpr unsigned offer_message = 2;

/// A smaller payload comes with its header and is copied on arrival; a larger one stays at the
/// sender until it is accepted. Bounds what unaccepted offers cost the receiver (R7).
inline constexpr std::size_t max_eager_bytes = 4096;

enum class ControlKind : std::uint32_t { verdict = 1, cancel = 2 };

struct ControlHeader {
  ControlKind kind = ControlKind::verdict;
  std::uint32_t status = 0;  ///< of a verdict: Status
  std::uint64_t sequence = 0;
};

/// Followed by the caller's header.
struct OfferHeader {
  std::uint64_t sequence = 0;
};

}  // namespace baton::transport::ucx
