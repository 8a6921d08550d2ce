// Exit codes of all programs (sysexits.h).
#pragma once

namespace baton {

inline constexpr int exit_usage = 64;
inline constexpr int exit_refused = 65;
inline constexpr int exit_unreachable = 69;
inline constexpr int exit_software = 70;
inline constexpr int exit_config = 78;
inline constexpr int exit_interrupted = 130;

}  // namespace baton
