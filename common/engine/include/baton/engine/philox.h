// Philox 4x32-10, the counter-based generator of Salmon, Moraes, Dror and Shaw ("Parallel random
// numbers: as easy as 1, 2, 3", 2011): any element of the stream is computed from its index alone,
// so that a resumed sequence continues exactly.
#pragma once

#include <array>
#include <cstdint>

namespace baton::engine {

std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                        std::array<std::uint32_t, 2> key);

/// The number in [0, 1), a multiple of 2^-53, that token `index` of `choice` is drawn with.
double uniform_draw(std::uint64_t seed, std::uint32_t choice, std::uint64_t index);

}  // namespace baton::engine
