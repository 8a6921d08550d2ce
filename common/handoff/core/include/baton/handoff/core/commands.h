// What the engine and control threads ask of the transport thread (handoff/driver.h). Values only,
// so that node cores can name them as effects.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "baton/base/time.h"
#include "baton/handoff/core/types.h"

namespace baton::handoff {

// ---- commands of the engine thread ----
struct BeginSource {
  SourceId source;
  protocol::AttemptKey key;
  std::int64_t length = 0;
  std::vector<LocalBlocks> blocks;
  Instant started_at;  ///< when the prompt's first step began
};
/// The blocks as they are now.
struct ExtendSource {
  SourceId source;
  std::vector<LocalBlocks> blocks;
};
/// The first `positions` positions of a layer are final in the arena.
struct LayerReady {
  SourceId source;
  std::uint32_t layer = 0;
  std::int64_t positions = 0;
  Instant computed_at;
};
struct CommitSource {
  SourceId source;
  std::int32_t first_index = 0;
  protocol::Tokens tokens;
  Instant sampled_at;
};
struct SetTarget {
  SourceId source;
  protocol::AttemptKey key;
  NodeId node;
  Epoch epoch;
  protocol::Grant grant;
};
struct AbortSource {
  SourceId source;
};
struct OpenGrant {
  protocol::AttemptKey key;
  protocol::Grant grant;
  std::vector<LocalBlocks> blocks;
};
struct CloseGrant {
  std::uint64_t grant = 0;
};

using EngineCommand = std::variant<BeginSource, ExtendSource, LayerReady, CommitSource, SetTarget,
                                   AbortSource, OpenGrant, CloseGrant>;

// ---- commands of the control thread ----
/// The other side of this pair connection announced a data link: connect to it.
struct ConnectLink {
  LinkId link;
  NodeId node;
  Epoch epoch;
  protocol::DataLink data;
};
/// A peer will connect with this token; LinkExpected follows.
struct ExpectLink {
  LinkId link;
  std::string transport;
  RequestId token;
  RequestId secret;
};
/// The pair connection is gone: everything open on it ends.
struct DropLink {
  LinkId link;
};
/// Commit, Accepted or CommitRefused came on the pair connection.
struct PairMessage {
  LinkId link;
  protocol::Message message;
  Instant arrived;  ///< when the control thread had read it
};

using LinkCommand = std::variant<ConnectLink, ExpectLink>;

}  // namespace baton::handoff
