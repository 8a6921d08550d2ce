#include "baton/protocol/messages.h"

namespace baton::protocol {
namespace {

struct NameOf {
  const char* operator()(const Hello&) const { return "hello"; }
  const char* operator()(const HelloAck&) const { return "hello_ack"; }
  const char* operator()(const HelloRefused&) const { return "hello_refused"; }
  const char* operator()(const Reserve&) const { return "reserve"; }
  const char* operator()(const Prefill&) const { return "prefill"; }
  const char* operator()(const Target&) const { return "target"; }
  const char* operator()(const Cancel&) const { return "cancel"; }
  const char* operator()(const Release&) const { return "release"; }
  const char* operator()(const Resume&) const { return "resume"; }
  const char* operator()(const Heartbeat&) const { return "heartbeat"; }
  const char* operator()(const Peers&) const { return "peers"; }
  const char* operator()(const Unknown&) const { return "unknown"; }
  const char* operator()(const BundleRequest&) const { return "bundle_request"; }
  const char* operator()(const Granted&) const { return "granted"; }
  const char* operator()(const Refused&) const { return "refused"; }
  const char* operator()(const Tokens&) const { return "tokens"; }
  const char* operator()(const Finished&) const { return "finished"; }
  const char* operator()(const Owned&) const { return "owned"; }
  const char* operator()(const HandoffEnded&) const { return "handoff_ended"; }
  const char* operator()(const Gone&) const { return "gone"; }
  const char* operator()(const Report&) const { return "report"; }
  const char* operator()(const Inventory&) const { return "inventory"; }
  const char* operator()(const BundlePart&) const { return "bundle_part"; }
  const char* operator()(const Commit&) const { return "commit"; }
  const char* operator()(const Accepted&) const { return "accepted"; }
  const char* operator()(const CommitRefused&) const { return "commit_refused"; }
};

}  // namespace

const char* name(const Message& message) { return std::visit(NameOf{}, message); }

}  // namespace baton::protocol
