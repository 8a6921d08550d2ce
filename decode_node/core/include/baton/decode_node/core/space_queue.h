// Order among reservations that were refused for lack of space. Refusing keeps no state of a
// request, so that it may go elsewhere; but small requests would take every block that gets free
// from under a large one for ever. Whoever has waited long goes first, and before all others those
// whose prompts are computed: until they are handed over, they fill the cache of a prefill worker.
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>

#include "baton/base/ids.h"
#include "baton/base/time.h"

namespace baton::decode_node {

class SpaceQueue {
 public:
  /// True when another request has waited for space long, and goes before this one.
  bool must_wait(RequestId request, bool prompt_ready, Instant now) {
    std::erase_if(waiting_, [&](const auto& each) { return now - each.second.asked > forget; });
    const auto own = waiting_.find(request);
    return std::any_of(waiting_.begin(), waiting_.end(), [&](const auto& each) {
      const Waiting& other = each.second;
      if (each.first == request || !other.has_waited_long(now)) return false;
      if (other.prompt_ready != prompt_ready) return other.prompt_ready;
      return own == waiting_.end() || other.since < own->second.since;
    });
  }

  bool has_waited_long(RequestId request, Instant now) const {
    const auto found = waiting_.find(request);
    return found != waiting_.end() && found->second.has_waited_long(now);
  }

  void refused(RequestId request, bool prompt_ready, Instant now) {
    if (waiting_.size() >= capacity && !waiting_.contains(request)) return;
    Waiting& own = waiting_.try_emplace(request, Waiting{now, now, prompt_ready}).first->second;
    own.asked = now;
    own.prompt_ready = prompt_ready;
  }

  /// It has its space, or wants none any more.
  void leave(RequestId request) { waiting_.erase(request); }

 private:
  static constexpr Duration patience = std::chrono::seconds(1);
  static constexpr Duration patience_when_ready = std::chrono::milliseconds(200);

  struct Waiting {
    Instant since;  ///< first refused
    Instant asked;  ///< last
    bool prompt_ready = false;

    bool has_waited_long(Instant now) const {
      return now - since > (prompt_ready ? patience_when_ready : patience);
    }
  };
  static constexpr Duration forget = std::chrono::seconds(2);  ///< routers ask again sooner
  static constexpr std::size_t capacity = 1024;

  std::map<RequestId, Waiting> waiting_;
};

}  // namespace baton::decode_node
