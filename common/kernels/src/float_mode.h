// The floating-point environment of every kernel: round to nearest even, FTZ, DAZ.
#pragma once

#include <immintrin.h>

namespace baton::kernels {

/// MXCSR: all exceptions masked, round to nearest even, flush to zero, denormals are zero.
inline constexpr unsigned engine_mxcsr = 0x1f80U | 0x8000U | 0x0040U;

/// Holds the engine mode for one scope and restores the thread's own mode after it, so that bits
/// never depend on who calls a kernel.
class FloatModeScope {
 public:
  FloatModeScope() : saved_(_mm_getcsr()) { _mm_setcsr(engine_mxcsr); }
  ~FloatModeScope() { _mm_setcsr(saved_); }
  FloatModeScope(const FloatModeScope&) = delete;
  FloatModeScope& operator=(const FloatModeScope&) = delete;

 private:
  unsigned saved_;
};

}  // namespace baton::kernels
