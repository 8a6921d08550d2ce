// The 6-bit scales of GGUF's K formats.
#pragma once

#include <cstdint>

namespace baton::kernels {

struct ScaleMin {
  int scale;
  int min;
};

/// The j-th of eight (scale, minimum) pairs that Q4_K and Q5_K keep in 12 bytes.
inline ScaleMin scale_min(const std::uint8_t* s, int j) {
  if (j < 4) return {s[j] & 63, s[j + 4] & 63};
  return {(s[j + 4] & 15) | ((s[j - 4] >> 6) << 4), (s[j + 4] >> 4) | ((s[j] >> 6) << 4)};
}

}  // namespace baton::kernels
