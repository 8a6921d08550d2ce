// Messages to bytes and back. Sans-io.
#pragma once

#include <span>
#include <string>

#include "baton/base/result.h"
#include "baton/protocol/messages.h"

namespace baton::protocol {

/// Wire limits, checked before anything is allocated for the native form (R7, R26).
inline constexpr std::size_t max_message_bytes = 1024 * 1024;
inline constexpr std::size_t max_ids = 200'000;  ///< prompt and generated ids of one message

std::string encode(const Envelope& envelope);

/// Reason::protocol_violation on malformed, oversized, unknown or incomplete messages. Unknown
/// fields are dropped; an unknown message kind is an error the caller counts and survives.
Result<Envelope> decode(std::string_view bytes);

}  // namespace baton::protocol
