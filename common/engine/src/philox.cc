#include "baton/engine/philox.h"

namespace baton::engine {
namespace {

constexpr std::uint64_t multiplier_0 = 0xD2511F53u;
constexpr std::uint64_t multiplier_1 = 0xCD9E8D57u;
constexpr std::uint32_t weyl_0 = 0x9E3779B9u;
constexpr std::uint32_t weyl_1 = 0xBB67AE85u;
constexpr int rounds = 10;

constexpr std::uint32_t low(std::uint64_t value) { return static_cast<std::uint32_t>(value); }
constexpr std::uint32_t high(std::uint64_t value) {
  return static_cast<std::uint32_t>(value >> 32);
}

}  // namespace

std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                        std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < rounds; ++round) {
    const std::uint64_t a = multiplier_0 * counter[0];
    const std::uint64_t b = multiplier_1 * counter[2];
    counter = {high(b) ^ counter[1] ^ key[0], low(b), high(a) ^ counter[3] ^ key[1], low(a)};
    key[0] += weyl_0;
    key[1] += weyl_1;
  }
  return counter;
}

double uniform_draw(std::uint64_t seed, std::uint32_t choice, std::uint64_t index) {
  const auto words = philox4x32({low(index), high(index), choice, 0}, {low(seed), high(seed)});
  const std::uint64_t bits = (static_cast<std::uint64_t>(words[0]) << 32 | words[1]) >> 11;
  return static_cast<double>(bits) * 0x1p-53;
}

}  // namespace baton::engine
