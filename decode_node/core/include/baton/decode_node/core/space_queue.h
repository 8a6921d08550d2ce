// Order among reservations that were refused for lack of space. Refusing keeps no state of a
// request, so that it may go elsewhere; but small requests would take every block that gets free
// from under a large one for ever. Whoever has waited long goes first.
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>

#include "baton/base/ids.h"
#include "baton/base/time.h"

namespace baton::decode_node {

class SpaceQueue {
 public:
  /// True when another request has waited for space long, and longer than this one.
  bool must_wait(RequestId request, Instant now) {
    std::erase_if(waiting_, [&](const auto& each) { return now - each.second.asked > forget; });
    const auto own = waiting_.find(request);
    return std::any_of(waiting_.begin(), waiting_.end(), [&](const auto& each) {
      const Instant since = each.second.since;
      return each.first != request && now - since > patience &&
             (own == waiting_.end() || since < own->second.since);
    });
  }

  void refused(RequestId request, Instant now) {
    if (waiting_.size() >= capacity && !waiting_.contains(request)) return;
    waiting_.try_emplace(request, Waiting{now, now}).first->second.asked = now;
  }

  /// It has its space, or wants none any more.
  void leave(RequestId request) { waiting_.erase(request); }

 private:
  struct Waiting {
    Instant since;  ///< first refused
    Instant asked;  ///< last
  };
  static constexpr Duration patience = std::chrono::seconds(1);
  static constexpr Duration forget = std::chrono::seconds(2);  ///< routers ask again sooner
  static constexpr std::size_t capacity = 1024;

  std::map<RequestId, Waiting> waiting_;
};

}  // namespace baton::decode_node
