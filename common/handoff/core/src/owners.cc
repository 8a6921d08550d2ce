#include "baton/handoff/core/owners.h"

#include <algorithm>

namespace baton::handoff {

std::optional<OwnerRef> Owners::heard_from(const OwnerRef& owner, Duration lease, Instant now) {
  const auto [found, fresh] = leases_.try_emplace(owner.node, Lease{owner.epoch, now + lease});
  if (fresh) return std::nullopt;
  std::optional<OwnerRef> before;
  if (found->second.epoch != owner.epoch) before = OwnerRef{owner.node, found->second.epoch};
  found->second = Lease{owner.epoch, now + lease};
  return before;
}

std::vector<OwnerRef> Owners::take_expired(Instant now) {
  std::vector<OwnerRef> out;
  for (auto it = leases_.begin(); it != leases_.end();) {
    if (now < it->second.until) {
      ++it;
      continue;
    }
    out.push_back({it->first, it->second.epoch});
    it = leases_.erase(it);
  }
  return out;
}

bool Owners::accept(const OwnerRef& owner, Duration lease, Instant now) {
  const auto found = leases_.find(owner.node);
  if (found != leases_.end()) return found->second.epoch == owner.epoch;
  leases_.emplace(owner.node, Lease{owner.epoch, now + lease});
  return true;
}

bool Owners::is_current(const OwnerRef& owner) const {
  const auto found = leases_.find(owner.node);
  return found != leases_.end() && found->second.epoch == owner.epoch;
}

std::vector<OwnerRef> Owners::all() const {
  std::vector<OwnerRef> out;
  for (const auto& [node, lease] : leases_) out.push_back({node, lease.epoch});
  return out;
}

void Tombstones::put(const protocol::AttemptKey& key, protocol::Message answer, Instant until) {
  const auto [found, fresh] = stones_.try_emplace(key.request);
  Stone& stone = found->second;
  // A late message about an earlier attempt does not bring the later ones back.
  stone.attempt.prefill_leg = std::max(stone.attempt.prefill_leg, key.attempt.prefill_leg);
  stone.attempt.decode_leg = std::max(stone.attempt.decode_leg, key.attempt.decode_leg);
  stone.answer = std::move(answer);
  stone.until = until;
  if (!fresh) return;
  order_.push_back(key.request);
  if (stones_.size() > capacity_) {
    stones_.erase(order_.front());
    order_.pop_front();
    ++dropped_;
  }
}

const protocol::Message* Tombstones::find(const protocol::AttemptKey& key) const {
  const auto found = stones_.find(key.request);
  if (found == stones_.end()) return nullptr;
  const Attempt& known = found->second.attempt;
  const bool newer =
      key.attempt.prefill_leg > known.prefill_leg || key.attempt.decode_leg > known.decode_leg;
  return newer ? nullptr : &found->second.answer;
}

void Tombstones::tick(Instant now) {
  // Times differ little, so the oldest end first: the loop stops at the first that lives on.
  while (!order_.empty()) {
    const auto oldest = stones_.find(order_.front());
    if (oldest->second.until > now) return;
    stones_.erase(oldest);
    order_.pop_front();
  }
}

}  // namespace baton::handoff
