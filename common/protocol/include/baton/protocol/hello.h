// How a connection begins: who is there, in which life, and whether the two fit together.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "baton/base/ids.h"
#include "baton/base/reason.h"
#include "baton/protocol/data_plane.h"

namespace baton::protocol {

inline constexpr std::uint32_t protocol_version = 2;

enum class Role : std::uint8_t { router = 1, prefill = 2, decode = 3 };

/// First message of every connection, from the side that connected.
struct Hello {
  std::uint32_t version = protocol_version;
  Role role = Role::router;
  NodeId node;
  Epoch epoch;
  std::optional<Digest256> fingerprint;  ///< workers only
  std::vector<std::string> transports;   ///< prefill to decode: what it can connect with
  std::string host;                      ///< identity of the running system, for shared memory
};

/// What a worker tells everybody who connects.
struct HelloAck {
  std::uint32_t version = protocol_version;
  Role role = Role::decode;
  NodeId node;
  Epoch epoch;
  Digest256 fingerprint;
  std::vector<std::pair<std::string, std::string>> fingerprint_fields;
  WorkerInfo worker;
  std::optional<DataLink> data;  ///< decode to prefill
};

/// The connection is refused and closed (version, role, fingerprint, duplicate node id).
struct HelloRefused {
  Reason reason = Reason::internal;
  std::string message;
};

}  // namespace baton::protocol
