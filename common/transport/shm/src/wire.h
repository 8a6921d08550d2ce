// Messages between two processes of one host, one a datagram. Numbers are in host byte order; every
// count is checked against the bytes that are there and the interface's limits (R7).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "baton/transport/memory.h"
#include "baton/transport/transport.h"

namespace baton::transport::shm {

inline constexpr std::uint32_t protocol_version = 1;
/// The largest offer: max_header_bytes and max_extents ranges of 20 bytes, rounded up.
inline constexpr std::size_t max_message_bytes = 128 * 1024;

struct Hello {
  std::uint32_t version = protocol_version;
  PairToken token;
};
struct Welcome {};
/// Carries the memory file's descriptor.
struct Region {
  std::uint32_t index = 0;
  std::uint64_t bytes = 0;
};
struct Offer {
  std::uint64_t sequence = 0;
  std::vector<std::byte> header;
  std::vector<RegionRange> ranges;
};
/// How the receiver ended an offer; frees the sender's slot.
struct Verdict {
  std::uint64_t sequence = 0;
  Status status = Status::ok;
};
struct Cancel {
  std::uint64_t sequence = 0;
};
using Message = std::variant<Hello, Welcome, Region, Offer, Verdict, Cancel>;

std::vector<std::byte> encode(const Message& message);

/// Nothing for anything but exactly one well-formed message.
std::optional<Message> decode(std::span<const std::byte> bytes);

}  // namespace baton::transport::shm
