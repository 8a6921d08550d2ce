// The two digests of a unit, and the root of a component (ARCHITECTURE.md, Digests).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "baton/base/ids.h"
#include "baton/protocol/messages.h"

namespace baton::handoff {

/// XXH3-128 of a unit's bytes.
Digest128 content_digest(std::span<const std::byte> unit);

/// Which unit of which attempt.
struct UnitName {
  protocol::AttemptKey key;
  protocol::Component component = protocol::Component::k;
  std::uint32_t layer = 0;
  std::uint32_t index = 0;
};

/// Ties a unit's content to its name under the pair's secret: a unit in another place, of another
/// request or attempt, or from a peer that does not know the secret has another binding.
Digest128 binding_digest(const RequestId& secret, const Digest128& content, const UnitName& name);

/// XXH3-128 over content digests in (layer, index) order.
Digest128 root_digest(std::span<const Digest128> contents);

}  // namespace baton::handoff
