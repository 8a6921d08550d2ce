// Exit codes of the command, by reason.
#pragma once

#include "baton/base/exit_code.h"
#include "baton/base/reason.h"
#include "baton/base/result.h"

namespace baton::cli {

int exit_code(Reason reason);

/// "baton: …" on standard error; returns the exit code.
int report(const Error& error);

}  // namespace baton::cli
