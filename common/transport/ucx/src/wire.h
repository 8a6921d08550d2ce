// Headers of the active messages, host byte order (both ends are of one kind of machine, as the
// fingerprint demands).
#pragma once

#include <cstdint>

namespace baton::transport::ucx {

/// Changes with every change of what is below.
inline constexpr std::uint32_t wire_magic = 0xBA702001;

inline constexpr unsigned control_am = 1;
inline constexpr unsigned offer_am = 2;

/// A smaller payload comes with its header and is copied on arrival; a larger one stays at the
/// sender until it is accepted. Bounds what unaccepted offers cost the receiver (R7).
inline constexpr std::size_t max_eager_bytes = 4096;

enum class ControlKind : std::uint32_t { hello = 1, welcome = 2, verdict = 3, cancel = 4 };

struct ControlHeader {
  std::uint32_t magic = wire_magic;
  ControlKind kind = ControlKind::hello;
  std::uint64_t first = 0;   ///< hello: token, high half · verdict, cancel: sequence
  std::uint64_t second = 0;  ///< hello: token, low half · verdict: Status
};

/// Followed by the caller's header.
struct OfferHeader {
  std::uint32_t magic = wire_magic;
  std::uint32_t reserved = 0;
  std::uint64_t sequence = 0;
};

}  // namespace baton::transport::ucx
