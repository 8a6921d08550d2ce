#include "baton/handoff/core/digests.h"

#include <array>
#include <vector>

#include <xxhash.h>

namespace baton::handoff {
namespace {

Digest128 digest_of(const void* data, std::size_t bytes) {
  const XXH128_hash_t hash = XXH3_128bits(data, bytes);
  return {hash.high64, hash.low64};
}

/// Values as little-endian bytes, whatever the machine.
template <std::size_t N>
Digest128 digest_of_words(const std::array<std::uint64_t, N>& words) {
  std::array<std::uint8_t, N * 8> bytes;
  for (std::size_t i = 0; i < N; ++i) {
    for (std::size_t b = 0; b < 8; ++b) {
      bytes[i * 8 + b] = static_cast<std::uint8_t>(words[i] >> (8 * b));
    }
  }
  return digest_of(bytes.data(), bytes.size());
}

}  // namespace

Digest128 content_digest(std::span<const std::byte> unit) {
  return digest_of(unit.data(), unit.size());
}

Digest128 binding_digest(const RequestId& secret, const Digest128& content, const UnitName& name) {
  const auto pack = [](std::uint32_t high, std::uint32_t low) {
    return (static_cast<std::uint64_t>(high) << 32) | low;
  };
  return digest_of_words<9>(
      {secret.high, secret.low, content.high, content.low, name.key.request.high,
       name.key.request.low, pack(name.key.attempt.prefill_leg, name.key.attempt.decode_leg),
       pack(static_cast<std::uint32_t>(name.component), name.layer), name.index});
}

Digest128 root_digest(std::span<const Digest128> contents) {
  std::vector<std::uint8_t> bytes;
  bytes.reserve(contents.size() * 16);
  for (const Digest128& digest : contents) {
    for (std::uint64_t word : {digest.high, digest.low}) {
      for (int b = 0; b < 8; ++b) bytes.push_back(static_cast<std::uint8_t>(word >> (8 * b)));
    }
  }
  return digest_of(bytes.data(), bytes.size());
}

}  // namespace baton::handoff
