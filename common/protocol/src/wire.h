// The two directions between native messages and the generated wire classes.
#pragma once

#include "baton/base/result.h"
#include "baton/protocol/messages.h"

#include "baton.pb.h"

namespace baton::protocol {

void to_wire(const Message& message, wire::Envelope& out);

/// Reason::protocol_violation for values outside their range.
Result<Message> from_wire(const wire::Envelope& envelope);

}  // namespace baton::protocol
