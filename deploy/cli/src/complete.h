// `baton complete`: one prompt or a batch, through a cluster or in this process.
#pragma once

#include "options.h"

namespace baton::cli {

/// Returns the exit code. Answers go to standard output as they come; a batch prints one JSON
/// object a line in the order of its prompts, failed ones as {"error": …}, and the code is that of
/// one that failed.
int complete(const CompleteOptions& options);

}  // namespace baton::cli
