#include "baton/transport/fault/fault.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace baton::transport {
namespace {

constexpr std::uint64_t copy_bit = std::uint64_t{1} << 63;

void flip_bit(std::byte& byte, std::size_t bit) { byte ^= std::byte{1} << bit; }

}  // namespace

bool FaultTransport::happens(double probability) {
  // No draw for a fault that is off: policies that differ in one field stay comparable.
  return probability > 0 && std::uniform_real_distribution<>()(random_) < probability;
}

std::size_t FaultTransport::below(std::size_t limit) {
  return std::uniform_int_distribution<std::size_t>(0, limit - 1)(random_);
}

Result<void> FaultTransport::send(SendId id, PeerId peer, std::span<const std::byte> header,
                                  std::span<const Extent> extents) {
  if (policy_.no_space_every > 0 && ++send_calls_ % policy_.no_space_every == 0) {
    ++counts_.no_space;
    return Error(Reason::no_space, "fault: no resource");
  }
  std::vector<Extent> parts(extents.begin(), extents.end());
  if (happens(policy_.truncate)) {
    const auto last = std::find_if(parts.rbegin(), parts.rend(),
                                   [](const Extent& extent) { return extent.bytes > 0; });
    if (last != parts.rend()) {
      --last->bytes;
      ++counts_.truncated;
    }
  }
  BATON_TRY(inner_->send(id, peer, header, parts));
  if (happens(policy_.duplicate)) {
    const SendId copy(id.value() | copy_bit);
    if (inner_->send(copy, peer, header, parts).has_value()) {
      twins_.emplace(id, Twin{copy});
      ++counts_.duplicated;
    }
  }
  if (++sends_ == policy_.lose_peer_after_sends) {
    ++counts_.lost_peers;
    inner_->close(peer);
  }
  return ok();
}

void FaultTransport::cancel_send(SendId id) {
  if (const auto twin = twins_.find(id); twin != twins_.end()) {
    inner_->cancel_send(twin->second.copy);
  }
  inner_->cancel_send(id);
}

void FaultTransport::accept(OfferId offer, std::span<const Extent> extents) {
  std::size_t room = 0;
  for (const Extent& extent : extents) room += extent.bytes;
  const auto announced = announced_.find(offer);
  const std::size_t bytes = announced == announced_.end() ? 0 : std::min(room, announced->second);
  announced_.erase(offer);
  if (bytes > 0 && happens(policy_.flip_payload)) {
    flips_.emplace(offer, Flip{{extents.begin(), extents.end()}, bytes});
  }
  inner_->accept(offer, extents);
}

void FaultTransport::refuse(OfferId offer) {
  announced_.erase(offer);
  inner_->refuse(offer);
}

void FaultTransport::poll(Duration max_wait, std::vector<Event>& events) {
  for (const Held& held : held_) max_wait = std::min(max_wait, held.due - monotonic_now());
  std::vector<Event> inner_events;
  inner_->poll(std::max(max_wait, Duration::zero()), inner_events);
  for (Event& event : inner_events) filter(std::move(event), events);
  release_due(events);
}

void FaultTransport::filter(Event event, std::vector<Event>& events) {
  if (auto* offered = std::get_if<Offered>(&event)) {
    on_offered(std::move(*offered), events);
    return;
  }
  if (const auto* done = std::get_if<SendDone>(&event)) {
    on_send_done(*done, events);
    return;
  }
  if (const auto* done = std::get_if<ReceiveDone>(&event)) on_receive_done(*done);
  if (const auto* down = std::get_if<PeerDown>(&event)) {
    // Nothing of a peer is shown after its end.
    std::erase_if(held_, [&](const Held& held) { return held.offered.peer == down->peer; });
  }
  events.push_back(std::move(event));
}

void FaultTransport::on_offered(Offered offered, std::vector<Event>& events) {
  if (happens(policy_.drop_offer)) {
    ++counts_.dropped;
    return;
  }
  announced_.emplace(offered.offer, offered.bytes);
  if (!offered.header.empty() && happens(policy_.flip_header)) {
    flip_bit(offered.header[below(offered.header.size())], below(8));
    ++counts_.headers_flipped;
  }
  const bool delayed = happens(policy_.delay_offer);
  const bool reordered = !delayed && happens(policy_.reorder);
  if (delayed || reordered) {
    ++(delayed ? counts_.delayed : counts_.reordered);
    held_.push_back({monotonic_now() + policy_.delay, reordered, std::move(offered)});
    return;
  }
  events.emplace_back(std::move(offered));
  for (Held& held : held_) {
    if (held.until_next) held.due = Instant();
  }
}

void FaultTransport::on_send_done(SendDone done, std::vector<Event>& events) {
  const SendId id(done.send.value() & ~copy_bit);
  const auto twin = twins_.find(id);
  if (twin == twins_.end()) {
    events.emplace_back(done);
    return;
  }
  if (done.send == id) twin->second.status = done.status;
  if (--twin->second.open > 0) return;
  events.emplace_back(SendDone{id, twin->second.status});
  twins_.erase(twin);
}

void FaultTransport::on_receive_done(const ReceiveDone& done) {
  const auto found = flips_.find(done.offer);
  if (found == flips_.end()) return;
  if (done.status == Status::ok || done.status == Status::truncated) {
    std::size_t position = below(found->second.bytes);
    for (const Extent& extent : found->second.extents) {
      if (position < extent.bytes) {
        flip_bit(extent.data[position], below(8));
        ++counts_.payloads_flipped;
        break;
      }
      position -= extent.bytes;
    }
  }
  flips_.erase(found);
}

void FaultTransport::release_due(std::vector<Event>& events) {
  const Instant now = monotonic_now();
  for (Held& held : held_) {
    if (held.due <= now) events.emplace_back(std::move(held.offered));
  }
  std::erase_if(held_, [&](const Held& held) { return held.due <= now; });
}

}  // namespace baton::transport
