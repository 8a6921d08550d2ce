// Exit codes of the command (sysexits.h), by reason.
#pragma once

#include "baton/base/reason.h"
#include "baton/base/result.h"

namespace baton::cli {

inline constexpr int exit_usage = 64;
inline constexpr int exit_refused = 65;
inline constexpr int exit_unreachable = 69;
inline constexpr int exit_software = 70;
inline constexpr int exit_config = 78;
inline constexpr int exit_interrupted = 130;

int exit_code(Reason reason);

/// "baton: …" on standard error; returns the exit code.
int report(const Error& error);

}  // namespace baton::cli
