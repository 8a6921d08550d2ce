#include "baton/handoff/core/receiver.h"

#include <algorithm>
#include <utility>

#include "baton/base/check.h"
#include "baton/handoff/core/digests.h"

namespace baton::handoff {

using protocol::AttemptKey;
using protocol::Component;
using protocol::UnitHeader;

Receiver::Receiver(Geometry geometry, Digest256 fingerprint, Epoch own_epoch, ReceiverLimits limits)
    : geometry_(std::move(geometry)),
      fingerprint_(fingerprint),
      own_epoch_(own_epoch),
      limits_(limits) {}

void Receiver::open(const AttemptKey& key, protocol::Grant grant, std::vector<LocalBlocks> blocks) {
  BATON_CHECK(blocks.size() == geometry_.groups.size());
  BATON_CHECK(!grants_.contains(grant.id));
  OpenGrant& entry = grants_[grant.id];
  entry.key = key;
  entry.grant = std::move(grant);
  for (std::uint32_t g = 0; g < geometry_.groups.size(); ++g) {
    Group& group = entry.groups.emplace_back();
    group.first = first_needed_unit(geometry_.groups[g].window, entry.grant.length);
    group.end = end_unit(entry.grant.length);
    group.blocks = std::move(blocks[g]);
    const std::size_t units = group.end - group.first;
    group.layers.resize(geometry_.groups[g].layers.size());
    for (Layer& layer : group.layers) {
      layer.state.assign(units, Unit::missing);
      layer.k.resize(units);
      layer.v.resize(units);
    }
    entry.missing += units * group.layers.size();
    take_held(entry, g);
  }
}

/// What is here already counts as present, with the digests that were kept with its blocks; the
/// others are asked for.
void Receiver::take_held(OpenGrant& grant, std::uint32_t g) {
  Group& group = grant.groups[g];
  const protocol::GrantGroup& granted = grant.grant.groups[g];
  if (granted.held_units == 0) return;
  BATON_CHECK(granted.held_units <= group.end - group.first);
  grant.holds = true;
  grant.missing -= granted.held_units * group.layers.size();
  for (Layer& layer : group.layers) {
    std::fill_n(layer.state.begin(), granted.held_units, Unit::present);
  }
  const std::uint32_t base = granted.first_unit / granted.block_units;
  const std::uint32_t end =
      (granted.first_unit + granted.held_units - 1) / granted.block_units - base + 1;
  const std::vector<BlockName> names = blocks_of(granted);
  for (std::uint32_t at = 0; at < end; ++at) {
    if (const BlockDigests* digests = sealed_.find(names.at(at))) {
      fill(group, granted, at, *digests);
      continue;
    }
    ++grant.undigested;
    undigested_.push_back({grant.grant.id, g, at, names[at]});
  }
}

/// Digests of the held units that the grant's block `at` has.
void Receiver::fill(Group& group, const protocol::GrantGroup& granted, std::uint32_t at,
                    const BlockDigests& digests) {
  const std::uint32_t size = granted.block_units;
  const std::uint32_t begin = (granted.first_unit / size + at) * size;
  const std::uint32_t held_end = group.first + granted.held_units;
  for (std::uint32_t unit = std::max(begin, group.first); unit < std::min(begin + size, held_end);
       ++unit) {
    for (std::size_t l = 0; l < group.layers.size(); ++l) {
      group.layers[l].k[unit - group.first] = digests.k[l * size + unit - begin];
      group.layers[l].v[unit - group.first] = digests.v[l * size + unit - begin];
    }
  }
}

std::optional<Receiver::HeldBlock> Receiver::next_undigested() {
  while (!undigested_.empty()) {
    const Undigested& first = undigested_.front();
    const BlockDigests* digests = sealed_.find(first.name);
    if (digests == nullptr) return held_block(first);
    fill_first(*digests);  // another grant held the block too
  }
  return std::nullopt;
}

Receiver::HeldBlock Receiver::held_block(const Undigested& which) const {
  HeldBlock out{which.name, {}};
  const std::uint32_t units = grants_.at(which.grant).grant.groups[which.group].block_units;
  const LocalBlocks local{units, 0, {which.name.block}};
  const auto layers = static_cast<std::uint32_t>(geometry_.groups[which.group].layers.size());
  for (std::uint32_t layer = 0; layer < layers; ++layer) {
    const auto pieces = pieces_of(local, which.group, layer, 0, units);
    out.pieces.insert(out.pieces.end(), pieces.begin(), pieces.end());
  }
  return out;
}

void Receiver::digested(const HeldBlock& held, const std::vector<Digest128>& contents) {
  BATON_CHECK(!undigested_.empty() && undigested_.front().name == held.name);
  BlockDigests digests;
  auto next = contents.begin();
  for (const Piece& piece : held.pieces) {
    auto& of_component = piece.component == Component::k ? digests.k : digests.v;
    of_component.insert(of_component.end(), next, next + piece.count);
    next += piece.count;
  }
  sealed_.keep(held.name, digests);
  fill_first(digests);
}

void Receiver::fill_first(const BlockDigests& digests) {
  const Undigested first = undigested_.front();
  undigested_.pop_front();
  OpenGrant& grant = grants_.at(first.grant);
  fill(grant.groups[first.group], grant.grant.groups[first.group], first.at, digests);
  --grant.undigested;
  if (auto verified = settle(grant)) effects_.push_back(std::move(*verified));
}

/// Of the whole blocks that are needed from their first unit on: verified, and from now on only
/// read.
void Receiver::keep_digests(const OpenGrant& grant) {
  const auto whole_end = static_cast<std::uint32_t>(grant.grant.length / unit_positions);
  for (std::size_t g = 0; g < grant.groups.size(); ++g) {
    const Group& group = grant.groups[g];
    const std::uint32_t size = grant.grant.groups[g].block_units;
    std::uint32_t begin = group.first / size * size;
    for (const BlockName& name : blocks_of(grant.grant.groups[g])) {
      const std::uint32_t at = std::exchange(begin, begin + size);
      if (at < group.first || at + size > whole_end) continue;
      BlockDigests digests;
      for (const Layer& layer : group.layers) {
        const auto skip = static_cast<std::ptrdiff_t>(at - group.first);
        digests.k.insert(digests.k.end(), layer.k.begin() + skip, layer.k.begin() + skip + size);
        digests.v.insert(digests.v.end(), layer.v.begin() + skip, layer.v.begin() + skip + size);
      }
      sealed_.keep(name, std::move(digests));
    }
  }
}

void Receiver::close(std::uint64_t grant) {
  const auto found = grants_.find(grant);
  if (found == grants_.end() || found->second.closing) return;
  found->second.closing = true;
  std::erase_if(undigested_, [grant](const Undigested& each) { return each.grant == grant; });
  for (const auto& [offer, receive] : receives_) {
    if (receive.grant == grant) effects_.push_back(CancelReceive{offer});
  }
  if (found->second.open_receives == 0) {
    grants_.erase(found);
    effects_.push_back(GrantClosed{grant});
  }
}

void Receiver::link_up(LinkId link, RequestId secret) { secrets_[link] = secret; }

void Receiver::link_down(LinkId link) {
  secrets_.erase(link);
  for (auto& [id, grant] : grants_) {
    if (grant.waiting && grant.waiting->link == link) grant.waiting.reset();
  }
}

std::pair<std::uint32_t, std::uint32_t> Receiver::place_of(std::uint32_t layer) const {
  for (std::uint32_t group = 0; group < geometry_.groups.size(); ++group) {
    const auto& layers = geometry_.groups[group].layers;
    const auto found = std::lower_bound(layers.begin(), layers.end(), layer);
    if (found != layers.end() && *found == layer) {
      return {group, static_cast<std::uint32_t>(found - layers.begin())};
    }
  }
  return {static_cast<std::uint32_t>(geometry_.groups.size()), 0};
}

Reason Receiver::check_slots(const OpenGrant& grant, const UnitHeader& header) const {
  const protocol::GrantGroup& granted = grant.grant.groups[header.group];
  const std::uint32_t base = granted.first_unit / granted.block_units;
  const std::uint32_t first = header.first_unit / granted.block_units - base;
  const std::uint32_t last = (header.first_unit + header.units - 1) / granted.block_units - base;
  const std::vector<BlockName> blocks = blocks_of(granted);
  const std::size_t end = std::min<std::size_t>(last + 1, blocks.size());
  std::size_t at = first;
  for (const protocol::SlotRun& run : header.slots) {
    if (at > end || run.count > end - at) return Reason::out_of_range;
    for (std::uint32_t i = 0; i < run.count; ++i, ++at) {
      if (static_cast<std::uint32_t>(blocks[at].block) != run.first + i) {
        return Reason::out_of_range;
      }
      if (blocks[at].generation != run.generation) return Reason::stale_generation;
    }
  }
  return at == end ? Reason::internal : Reason::out_of_range;
}

/// Reason::internal stands for "nothing wrong": no peer can cause it.
Reason Receiver::check_offer(const OpenGrant& grant, const UnitHeader& header,
                             std::uint64_t payload_bytes) const {
  if (grant.key.request != header.key.request) return Reason::unknown_request;
  if (grant.key.attempt != header.key.attempt) return Reason::stale_attempt;
  if (grant.closing || grant.verified) return Reason::released;
  const auto [group_index, layer_index] = place_of(header.layer);
  if (group_index != header.group || group_index >= grant.groups.size()) {
    return Reason::out_of_range;
  }
  const Group& group = grant.groups[group_index];
  if (header.unit_bytes != geometry_.unit_bytes) return Reason::length_mismatch;
  if (header.first_unit < group.first || header.first_unit >= group.end ||
      header.units > group.end - header.first_unit) {
    return Reason::out_of_range;
  }
  if (payload_bytes != 2 * header.units * geometry_.unit_bytes) return Reason::length_mismatch;
  const Reason slots = check_slots(grant, header);
  if (slots != Reason::internal) return slots;
  const Layer& layer = group.layers[layer_index];
  for (std::uint32_t unit = header.first_unit; unit < header.first_unit + header.units; ++unit) {
    const Unit state = layer.state[unit - group.first];
    if (state == Unit::receiving || state == Unit::present) return Reason::duplicate;
  }
  return Reason::internal;
}

void Receiver::offered(LinkId link, TransferId offer, const Result<UnitHeader>& header,
                       std::uint64_t payload_bytes) {
  const auto refuse = [&](Reason reason) { effects_.push_back(RefuseUnits{offer, reason}); };
  if (!header) return refuse(header.error().reason());
  if (!secrets_.contains(link)) return refuse(Reason::protocol_violation);
  if (header->to != own_epoch_) return refuse(Reason::stale_epoch);
  const auto found = grants_.find(header->grant);
  if (found == grants_.end()) return refuse(Reason::unknown_request);
  OpenGrant& grant = found->second;
  const Reason reason = check_offer(grant, *header, payload_bytes);
  if (reason != Reason::internal) return refuse(reason);

  const auto [group_index, layer_index] = place_of(header->layer);
  Group& group = grant.groups[group_index];
  Layer& layer = group.layers[layer_index];
  for (std::uint32_t unit = header->first_unit; unit < header->first_unit + header->units; ++unit) {
    layer.state[unit - group.first] = Unit::receiving;
  }
  ++grant.open_receives;
  receives_.emplace(offer, OpenReceive{link, header->grant, *header});
  effects_.push_back(AcceptUnits{
      offer, pieces_of(group.blocks, group_index, layer_index, header->first_unit, header->units)});
}

void Receiver::received(TransferId offer, const std::vector<Digest128>& contents) {
  const auto found = receives_.find(offer);
  if (found == receives_.end()) return;
  const OpenReceive receive = std::move(found->second);
  receives_.erase(found);
  OpenGrant& grant = grants_.at(receive.grant);
  --grant.open_receives;
  const UnitHeader& header = receive.header;
  const auto [group_index, layer_index] = place_of(header.layer);
  Group& group = grant.groups[group_index];
  Layer& layer = group.layers[layer_index];
  const auto secret = secrets_.find(receive.link);
  const bool whole = contents.size() == 2 * header.units && secret != secrets_.end();
  for (std::uint32_t i = 0; i < header.units; ++i) {
    const std::uint32_t index = header.first_unit + i;
    const std::uint32_t slot = index - group.first;
    bool good = whole;
    if (whole) {
      const Digest128& k = contents[i];
      const Digest128& v = contents[header.units + i];
      good = binding_digest(secret->second, k, {header.key, Component::k, header.layer, index}) ==
                 header.bindings[i] &&
             binding_digest(secret->second, v, {header.key, Component::v, header.layer, index}) ==
                 header.bindings[header.units + i];
      layer.k[slot] = k;
      layer.v[slot] = v;
    }
    layer.state[slot] = good ? Unit::present : Unit::bad;
    if (good) --grant.missing;
  }
  if (grant.closing) {
    if (grant.open_receives == 0) {
      effects_.push_back(GrantClosed{receive.grant});
      grants_.erase(receive.grant);
    }
    return;
  }
  if (auto verified = settle(grant)) effects_.push_back(std::move(*verified));
}

std::optional<std::string> Receiver::check_components(const OpenGrant& grant,
                                                      const protocol::Commit& commit,
                                                      Reason& reason) const {
  reason = Reason::unknown_component;
  for (const protocol::ComponentRoot& root : commit.components) {
    if (root.component != Component::k && root.component != Component::v) {
      return "component " + std::to_string(static_cast<int>(root.component)) + " is not known";
    }
  }
  if (commit.components.size() != 2 * grant.groups.size()) {
    return "the manifest lists " + std::to_string(commit.components.size()) + " components, " +
           std::to_string(2 * grant.groups.size()) + " are needed";
  }
  reason = Reason::length_mismatch;
  for (std::size_t i = 0; i < commit.components.size(); ++i) {
    const protocol::ComponentRoot& root = commit.components[i];
    const std::size_t g = i / 2;
    const Group& group = grant.groups[g];
    const Component component = i % 2 == 0 ? Component::k : Component::v;
    if (root.group != g || root.component != component || root.dtype != geometry_.cache_dtype ||
        root.unit_bytes != geometry_.unit_bytes || root.layers != group.layers.size() ||
        root.first_unit != group.first || root.units != group.end - group.first) {
      return "the manifest's entry " + std::to_string(i) + " has another shape than this cache";
    }
  }
  return std::nullopt;
}

std::optional<std::pair<Reason, std::string>> Receiver::check_commit(
    const OpenGrant& grant, const protocol::Commit& commit) const {
  using Answer = std::pair<Reason, std::string>;
  if (grant.key.attempt != commit.key.attempt) {
    return Answer{Reason::stale_attempt, "the commit names another attempt than the grant"};
  }
  if (commit.fingerprint != fingerprint_) {
    return Answer{Reason::fingerprint_mismatch, "the caches are not interchangeable"};
  }
  if (commit.length != grant.grant.length) {
    return Answer{Reason::length_mismatch, "the commit's length is " +
                                               std::to_string(commit.length) + ", granted are " +
                                               std::to_string(grant.grant.length)};
  }
  if (commit.tokens.ids.empty()) {
    return Answer{Reason::protocol_violation, "the commit brings no token to start from"};
  }
  Reason reason = Reason::internal;
  if (auto message = check_components(grant, commit, reason)) {
    return Answer{reason, std::move(*message)};
  }
  return std::nullopt;
}

void Receiver::commit(LinkId link, protocol::Commit commit, Instant arrived) {
  const auto refuse = [&](Reason reason, std::string message) {
    effects_.push_back(RefuseCommit{link, {commit.key, reason, std::move(message), {}}});
  };
  const auto found = grants_.find(commit.grant);
  if (found == grants_.end() || found->second.closing ||
      found->second.key.request != commit.key.request) {
    return refuse(Reason::unknown_request, "no open grant of that number for this request");
  }
  OpenGrant& grant = found->second;
  if (auto wrong = check_commit(grant, commit)) return refuse(wrong->first, wrong->second);
  if (grant.verified) return;  // the node core repeats its answer
  grant.waiting = WaitingCommit{link, std::move(commit), arrived, arrived + limits_.units_patience};
  if (auto verified = settle(grant)) effects_.push_back(std::move(*verified));
}

bool Receiver::roots_equal(const OpenGrant& grant, const protocol::Commit& commit) const {
  for (std::size_t i = 0; i < commit.components.size(); ++i) {
    std::vector<Digest128> contents;
    for (const Layer& layer : grant.groups[i / 2].layers) {
      const auto& of_layer = i % 2 == 0 ? layer.k : layer.v;
      contents.insert(contents.end(), of_layer.begin(), of_layer.end());
    }
    if (root_digest(contents) != commit.components[i].root) return false;
  }
  return true;
}

std::vector<protocol::UnitRange> Receiver::take_bad(OpenGrant& grant) {
  std::vector<protocol::UnitRange> out;
  for (std::size_t g = 0; g < grant.groups.size(); ++g) {
    Group& group = grant.groups[g];
    for (std::size_t l = 0; l < group.layers.size(); ++l) {
      const std::uint32_t layer = geometry_.groups[g].layers[l];
      for (std::uint32_t i = 0; i < group.layers[l].state.size(); ++i) {
        if (group.layers[l].state[i] != Unit::bad) continue;
        group.layers[l].state[i] = Unit::missing;
        const std::uint32_t index = group.first + i;
        if (!out.empty() && out.back().layer == layer &&
            out.back().first + out.back().count == index) {
          ++out.back().count;
        } else {
          out.push_back({Component::k, layer, index, 1});
        }
      }
    }
  }
  return out;
}

void Receiver::refuse_commit(OpenGrant& grant, Reason reason, std::string message,
                             std::vector<protocol::UnitRange> bad) {
  effects_.push_back(
      RefuseCommit{grant.waiting->link, {grant.key, reason, std::move(message), std::move(bad)}});
  grant.waiting.reset();
}

/// What was received has the sender's bindings; what was held has nothing but its own digests.
void Receiver::refuse_roots(OpenGrant& grant) {
  if (!grant.holds) {
    return refuse_commit(grant, Reason::digest_mismatch, "a component's root differs", {});
  }
  effects_.push_back(HeldUnitsDiffer{grant.grant.id});
  refuse_commit(grant, Reason::held_units_differ, "units that were held here differ", {});
}

/// Answers a waiting commit as soon as the answer is known.
std::optional<CommitVerified> Receiver::settle(OpenGrant& grant) {
  if (!grant.waiting || grant.open_receives > 0) return std::nullopt;
  if (grant.missing == 0) {
    if (grant.undigested > 0) return std::nullopt;
    if (!roots_equal(grant, grant.waiting->commit)) {
      refuse_roots(grant);
      return std::nullopt;
    }
    grant.verified = true;
    keep_digests(grant);
    CommitVerified out{grant.waiting->link, std::move(grant.waiting->commit),
                       grant.waiting->arrived};
    grant.waiting.reset();
    return out;
  }
  std::vector<protocol::UnitRange> bad = take_bad(grant);
  if (bad.empty()) return std::nullopt;  // units are still on their way
  if (std::exchange(grant.bad_reported, true)) bad.clear();
  refuse_commit(grant, Reason::digest_mismatch, "units did not match their digests",
                std::move(bad));
  return std::nullopt;
}

void Receiver::tick(Instant now) {
  for (auto& [id, grant] : grants_) {
    if (!grant.waiting || now < grant.waiting->deadline) continue;
    const std::string cause = grant.missing > 0
                                  ? std::to_string(grant.missing) + " units did not arrive in time"
                                  : "units that are held here were not read in time";
    refuse_commit(grant, Reason::missing_units, cause, {});
  }
}

std::vector<ReceiverEffect> Receiver::take_effects() { return std::exchange(effects_, {}); }

}  // namespace baton::handoff
