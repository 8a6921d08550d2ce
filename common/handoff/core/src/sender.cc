#include "baton/handoff/core/sender.h"

#include <algorithm>

#include "baton/base/check.h"
#include "baton/handoff/core/digests.h"

namespace baton::handoff {

using protocol::AttemptKey;
using protocol::Component;

namespace {

std::uint32_t held_units(const protocol::Grant& grant, std::uint32_t group) {
  for (const protocol::GrantGroup& each : grant.groups) {
    if (each.group == group) return each.held_units;
  }
  return 0;
}

}  // namespace

Sender::Sender(Geometry geometry, Digest256 fingerprint, SenderLimits limits)
    : geometry_(std::move(geometry)), fingerprint_(fingerprint), limits_(limits) {
  for (std::uint32_t group = 0; group < geometry_.groups.size(); ++group) {
    const auto& layers = geometry_.groups[group].layers;
    for (std::uint32_t index = 0; index < layers.size(); ++index) {
      const std::size_t needed = layers[index] + 1;
      if (group_of_layer_.size() < needed) {
        group_of_layer_.resize(needed);
        index_in_group_.resize(needed);
      }
      group_of_layer_[layers[index]] = group;
      index_in_group_[layers[index]] = index;
    }
  }
}

Sender::Source* Sender::find(SourceId id) {
  const auto found = sources_.find(id);
  return found == sources_.end() ? nullptr : &found->second;
}

/// The source that this link's answer about `key` can be meant for.
Sender::Source* Sender::find(LinkId link, const AttemptKey& key) {
  for (auto& [id, source] : sources_) {
    if (source.key == key && source.destination && source.destination->link == link) {
      return &source;
    }
  }
  return nullptr;
}

void Sender::begin(SourceId id, const AttemptKey& key, std::int64_t length,
                   std::vector<LocalBlocks> blocks, Instant started_at) {
  BATON_CHECK(blocks.size() == geometry_.groups.size());
  BATON_CHECK(!sources_.contains(id));
  Source& source = sources_[id];
  source.id = id;
  source.key = key;
  source.length = length;
  source.blocks = std::move(blocks);
  source.begun = started_at;
  source.layers.resize(group_of_layer_.size());
  for (std::uint32_t layer = 0; layer < source.layers.size(); ++layer) {
    const int window = geometry_.groups[group_of_layer_[layer]].window;
    LayerUnits& units = source.layers[layer];
    units.first = units.ready = units.sent = first_needed_unit(window, length);
  }
}

Sender::ReadyUnits Sender::newly_ready(SourceId id, std::uint32_t layer,
                                       std::int64_t positions) const {
  const auto found = sources_.find(id);
  if (found == sources_.end() || found->second.state == State::aborting) return {};
  const Source& source = found->second;
  const LayerUnits& units = source.layers.at(layer);
  const std::uint32_t end = positions >= source.length
                                ? end_unit(source.length)
                                : static_cast<std::uint32_t>(positions / unit_positions);
  if (end <= units.ready) return {};
  const std::uint32_t group = group_of_layer_[layer];
  return {units.ready, end - units.ready,
          pieces_of(source.blocks[group], group, index_in_group_[layer], units.ready,
                    end - units.ready)};
}

void Sender::units_ready(SourceId id, std::uint32_t layer, std::uint32_t first,
                         std::vector<Digest128> k, std::vector<Digest128> v, Instant computed_at,
                         Instant now) {
  Source* source = find(id);
  if (source == nullptr || source->state == State::aborting) return;
  LayerUnits& units = source->layers.at(layer);
  BATON_CHECK(first == units.ready && k.size() == v.size());
  units.k.insert(units.k.end(), k.begin(), k.end());
  units.v.insert(units.v.end(), v.begin(), v.end());
  units.ready += static_cast<std::uint32_t>(k.size());
  const bool last_layer = layer + 1 == source->layers.size();
  if (last_layer && source->facts.last_layer_computed == Duration{}) {
    source->facts.last_layer_computed = computed_at - source->begun;
  }
  if (source->state == State::sending) offer_layer(*source, layer, now);
}

void Sender::commit(SourceId id, std::int32_t first_index, protocol::Tokens tokens,
                    Instant sampled_at, Instant now) {
  Source* source = find(id);
  if (source == nullptr || source->state == State::aborting) return;
  protocol::Commit commit;
  commit.length = source->length;
  commit.fingerprint = fingerprint_;
  commit.components = roots(*source);
  commit.first_index = first_index;
  commit.tokens = std::move(tokens);
  source->commit = std::move(commit);
  source->sampled = sampled_at;
  source->deadline = now + limits_.answer_patience;
  advance(*source, now);
}

void Sender::target(SourceId id, const AttemptKey& key, NodeId node, Epoch epoch,
                    protocol::Grant grant, Instant now) {
  Source* source = find(id);
  if (source == nullptr || source->state == State::aborting || source->state == State::accepted) {
    return;
  }
  if (source->destination && source->destination->grant == grant &&
      source->destination->epoch == epoch) {
    // Repeated. A grant that failed once is not filled again: its owner makes a new one.
    if (source->state == State::failed) effects_.push_back(source->failure);
    return;
  }
  source->key = key;
  source->destination = Destination{std::move(node), epoch, std::move(grant), std::nullopt, now};
  restart(*source, now);
}

void Sender::restart(Source& source, Instant now) {
  cancel_open(source);
  source.state = State::collecting;
  source.resent = false;
  source.facts.units = 0;
  source.facts.bytes = 0;
  source.facts.held_units = 0;
  source.deadline = now + limits_.answer_patience;
  const std::uint32_t end = end_unit(source.length);
  for (std::uint32_t layer = 0; layer < source.layers.size(); ++layer) {
    LayerUnits& units = source.layers[layer];
    const std::uint32_t held =
        std::min(held_units(source.destination->grant, group_of_layer_[layer]), end - units.first);
    units.sent = units.first + held;
    source.facts.held_units += 2 * static_cast<std::int64_t>(held);
  }
  advance(source, now);
}

void Sender::connect_destination(Source& source, Instant now) {
  Destination& to = *source.destination;
  for (const auto& [id, link] : links_) {
    if (link.node == to.node && link.epoch == to.epoch) {
      to.link = id;
      source.state = State::sending;
      source.first_offer = now;
      return;
    }
  }
}

void Sender::advance(Source& source, Instant now) {
  if (source.state == State::collecting && source.destination) connect_destination(source, now);
  if (source.state != State::sending) return;
  for (std::uint32_t layer = 0; layer < source.layers.size(); ++layer) {
    offer_layer(source, layer, now);
    if (source.state != State::sending) return;
  }
  try_commit(source);
}

void Sender::offer_layer(Source& source, std::uint32_t layer, Instant now) {
  LayerUnits& units = source.layers[layer];
  while (units.sent < units.ready) {
    const std::uint32_t count = std::min(units.ready - units.sent, protocol::max_units_per_message);
    const std::uint32_t first = units.sent;
    units.sent += count;
    offer(source, layer, first, count, now);
  }
}

void Sender::offer(Source& source, std::uint32_t layer, std::uint32_t first, std::uint32_t count,
                   Instant now) {
  const LinkId link = *source.destination->link;
  const std::uint32_t group = group_of_layer_[layer];
  const LayerUnits& units = source.layers[layer];
  SendUnits send;
  send.id = TransferId(next_transfer_++);
  send.link = link;
  send.pieces = pieces_of(source.blocks[group], group, index_in_group_[layer], first, count);
  protocol::UnitHeader& header = send.header;
  header.key = source.key;
  header.to = source.destination->epoch;
  header.grant = source.destination->grant.id;
  header.group = group;
  header.layer = layer;
  header.first_unit = first;
  header.units = count;
  header.unit_bytes = geometry_.unit_bytes;
  header.slots = slots_for(source, group, first, count);
  for (Component component : {Component::k, Component::v}) {
    const auto& contents = component == Component::k ? units.k : units.v;
    for (std::uint32_t index = first; index < first + count; ++index) {
      header.bindings.push_back(binding_digest(links_.at(link).secret,
                                               contents[index - units.first],
                                               {source.key, component, layer, index}));
    }
  }
  if (layer == 0 && source.facts.first_unit_sent == Duration{}) {
    source.facts.first_unit_sent = now - source.begun;
  }
  source.facts.units += 2 * static_cast<std::int64_t>(count);
  source.facts.bytes += static_cast<std::int64_t>(2 * count * geometry_.unit_bytes);
  ++source.open_sends;
  open_.emplace(send.id, OpenSend{source.id, send});
  effects_.push_back(std::move(send));
}

std::vector<protocol::SlotRun> Sender::slots_for(const Source& source, std::uint32_t group,
                                                 std::uint32_t first, std::uint32_t count) const {
  std::vector<protocol::SlotRun> out;
  for (const protocol::GrantGroup& to : source.destination->grant.groups) {
    if (to.group != group) continue;
    const std::uint32_t base = to.first_unit / to.block_units;
    std::uint32_t begin = first / to.block_units - base;
    std::uint32_t left = (first + count - 1) / to.block_units - base + 1 - begin;
    for (const protocol::SlotRun& run : to.slots) {
      if (begin >= run.count) {
        begin -= run.count;
        continue;
      }
      const std::uint32_t taken = std::min(run.count - begin, left);
      if (taken > 0) out.push_back({run.first + begin, taken, run.generation});
      left -= taken;
      begin = 0;
      if (left == 0) break;
    }
  }
  return out;
}

bool Sender::everything_offered(const Source& source) const {
  const std::uint32_t end = end_unit(source.length);
  return std::all_of(source.layers.begin(), source.layers.end(),
                     [end](const LayerUnits& units) { return units.sent == end; });
}

std::vector<protocol::ComponentRoot> Sender::roots(const Source& source) const {
  std::vector<protocol::ComponentRoot> out;
  for (std::uint32_t group = 0; group < geometry_.groups.size(); ++group) {
    for (Component component : {Component::k, Component::v}) {
      std::vector<Digest128> contents;
      for (std::uint32_t layer : geometry_.groups[group].layers) {
        const LayerUnits& units = source.layers[layer];
        BATON_CHECK(units.ready == end_unit(source.length));
        const auto& of_layer = component == Component::k ? units.k : units.v;
        contents.insert(contents.end(), of_layer.begin(), of_layer.end());
      }
      const std::uint32_t first = first_needed_unit(geometry_.groups[group].window, source.length);
      out.push_back({component, group, geometry_.cache_dtype, geometry_.unit_bytes,
                     static_cast<std::uint32_t>(geometry_.groups[group].layers.size()), first,
                     end_unit(source.length) - first, root_digest(contents)});
    }
  }
  return out;
}

void Sender::try_commit(Source& source) {
  if (!source.commit || !everything_offered(source)) return;
  source.state = State::committed;
  source.commit->key = source.key;
  source.commit->tokens.key = source.key;
  source.commit->grant = source.destination->grant.id;
  effects_.push_back(SendCommit{source.id, *source.destination->link, *source.commit});
}

void Sender::commit_sent(SourceId id, Instant at) {
  if (Source* source = find(id)) source->committed = at;
}

void Sender::accepted(LinkId link, const protocol::Accepted& message, Instant arrived) {
  Source* source = find(link, message.key);
  if (source == nullptr || source->state != State::committed) return;
  source->state = State::accepted;
  source->facts.exposed = arrived - source->sampled;
  source->facts.answered = arrived - source->committed;
  source->facts.total = arrived - source->first_offer;
  effects_.push_back(SourceAccepted{source->id, source->key, link, source->facts});
  finish_if_idle(source->id);
}

void Sender::commit_refused(LinkId link, const protocol::CommitRefused& message, Instant now) {
  Source* source = find(link, message.key);
  if (source == nullptr) return;
  if (source->state != State::committed && source->state != State::sending) return;
  const std::uint32_t end = end_unit(source->length);
  bool known = !message.bad.empty();
  for (const protocol::UnitRange& bad : message.bad) {
    known = known && bad.layer < source->layers.size() && bad.count > 0 && bad.count <= end &&
            bad.first >= source->layers[bad.layer].first && bad.first <= end - bad.count;
  }
  if (!known || source->resent || source->state != State::committed) {
    fail(*source, message.reason, message.message);
    return;
  }
  source->resent = true;
  // The receiver names K and V apart; a message carries both, so a range is sent once.
  std::vector<std::pair<std::uint32_t, std::pair<std::uint32_t, std::uint32_t>>> ranges;
  for (const protocol::UnitRange& bad : message.bad) {
    ranges.push_back({bad.layer, {bad.first, bad.count}});
  }
  std::sort(ranges.begin(), ranges.end());
  ranges.erase(std::unique(ranges.begin(), ranges.end()), ranges.end());
  for (const auto& [layer, range] : ranges) {
    for (std::uint32_t at = 0; at < range.second; at += protocol::max_units_per_message) {
      offer(*source, layer, range.first + at,
            std::min(range.second - at, protocol::max_units_per_message), now);
    }
  }
  effects_.push_back(SendCommit{source->id, link, *source->commit});
}

void Sender::fail(Source& source, Reason reason, std::string message) {
  cancel_open(source);
  source.state = State::failed;
  source.failure = SourceFailed{source.id, source.key, reason, std::move(message), source.facts};
  effects_.push_back(source.failure);
}

void Sender::abort(SourceId id) {
  Source* source = find(id);
  if (source == nullptr) return;
  source->state = State::aborting;
  cancel_open(*source);
  finish_if_idle(id);
}

void Sender::extend(SourceId id, std::vector<LocalBlocks> blocks) {
  Source* source = find(id);
  if (source != nullptr) source->blocks = std::move(blocks);
}

void Sender::cancel_open(Source& source) {
  for (auto it = open_.begin(); it != open_.end();) {
    if (it->second.source != source.id) {
      ++it;
      continue;
    }
    const auto waiting = std::find(postponed_.begin(), postponed_.end(), it->first);
    if (waiting != postponed_.end()) {
      // It never reached the transport: no event will come.
      postponed_.erase(waiting);
      --source.open_sends;
      it = open_.erase(it);
      continue;
    }
    effects_.push_back(CancelSend{it->first});
    ++it;
  }
}

void Sender::finish_if_idle(SourceId id) {
  Source* source = find(id);
  if (source == nullptr || source->open_sends > 0) return;
  if (source->state != State::aborting && source->state != State::accepted) return;
  sources_.erase(id);
  effects_.push_back(SourceIdle{id});
}

void Sender::link_up(LinkId link, NodeId node, Epoch epoch, RequestId secret, Instant now) {
  links_[link] = Link{std::move(node), epoch, secret};
  for (auto& [id, source] : sources_) {
    if (source.state == State::collecting && source.destination) advance(source, now);
  }
}

void Sender::link_down(LinkId link, Instant) {
  links_.erase(link);
  for (auto& [id, source] : sources_) {
    if (!source.destination || source.destination->link != link) continue;
    if (source.state == State::sending || source.state == State::committed) {
      fail(source, Reason::worker_lost, "the connection to the decode worker was lost");
    }
  }
}

void Sender::send_done(TransferId id, SendOutcome outcome, Instant now) {
  const auto found = open_.find(id);
  if (found == open_.end()) return;
  const SourceId source_id = found->second.source;
  const std::uint64_t grant = found->second.message.header.grant;
  open_.erase(found);
  if (Source* source = find(source_id)) {
    --source->open_sends;
    // An answer to a send of an earlier target says nothing about the current one.
    const bool current = source->destination && source->destination->grant.id == grant;
    const bool active = source->state == State::sending || source->state == State::committed;
    if (current && active && outcome == SendOutcome::refused) {
      fail(*source, Reason::transport_failed, "the decode worker refused units");
    } else if (current && active && outcome == SendOutcome::lost) {
      fail(*source, Reason::worker_lost, "the connection to the decode worker was lost");
    }
    finish_if_idle(source_id);
  }
  tick(now);
}

void Sender::send_postponed(TransferId id) {
  if (open_.contains(id)) postponed_.push_back(id);
}

void Sender::tick(Instant now) {
  std::deque<TransferId> again;
  again.swap(postponed_);
  for (TransferId id : again) effects_.push_back(open_.at(id).message);
  for (auto& [id, source] : sources_) {
    const bool waiting = source.state == State::sending || source.state == State::committed ||
                         (source.state == State::collecting && source.destination);
    if (waiting && source.commit && now >= source.deadline) {
      fail(source, Reason::deadline_exceeded, "the decode worker did not answer the commit");
    }
  }
}

std::vector<SenderEffect> Sender::take_effects() { return std::exchange(effects_, {}); }

}  // namespace baton::handoff
