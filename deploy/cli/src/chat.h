// `baton chat`: a conversation on standard input and output.
#pragma once

#include "options.h"

namespace baton::cli {

/// Ends with /quit or the end of the input. Returns the exit code. A refused turn is reported and
/// forgotten, and the conversation goes on; a cluster that cannot be reached ends it.
int chat(const ChatOptions& options);

}  // namespace baton::cli
