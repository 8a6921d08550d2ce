// Names of things that cross module and machine borders (see ARCHITECTURE.md, Words).
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <string>

#include "baton/base/strong.h"

namespace baton {

using TokenId = std::int32_t;

/// 128 bits from the system's generator, made by the router; never a client's (R5, R8).
struct RequestId {
  std::uint64_t high = 0;
  std::uint64_t low = 0;

  /// 32 lower-case hexadecimal digits.
  std::string to_string() const;

  friend auto operator<=>(const RequestId&, const RequestId&) = default;
};

/// Random id of one life of a process. 0 means "none".
using Epoch = Strong<std::uint64_t, struct EpochTag>;

/// Configured or pod name of a node, unique among live processes.
using NodeId = Strong<std::string, struct NodeIdTag>;

/// Fencing numbers of a request's two legs. They are compared one by one and never decrease.
struct Attempt {
  std::uint32_t prefill_leg = 1;
  std::uint32_t decode_leg = 1;

  friend bool operator==(const Attempt&, const Attempt&) = default;
};

/// 128-bit digest (XXH3-128, canonical big-endian halves).
struct Digest128 {
  std::uint64_t high = 0;
  std::uint64_t low = 0;

  std::string to_string() const;

  friend auto operator<=>(const Digest128&, const Digest128&) = default;
};

/// SHA-256.
struct Digest256 {
  std::array<std::uint8_t, 32> bytes{};

  std::string to_string() const;

  friend auto operator<=>(const Digest256&, const Digest256&) = default;
};

/// From the system's generator (getrandom); used by io sides only, never by a core.
RequestId random_request_id();
Epoch random_epoch();
std::uint64_t random_seed();

}  // namespace baton

template <>
struct std::hash<baton::RequestId> {
  std::size_t operator()(const baton::RequestId& id) const noexcept { return id.high ^ id.low; }
};
