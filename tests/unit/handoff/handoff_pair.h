// A sender and a receiver joined by hand: memory is a map, every message can be changed on its way.
#pragma once

#include <cstring>
#include <functional>
#include <map>
#include <tuple>
#include <vector>

#include "baton/handoff/core/digests.h"
#include "baton/handoff/core/receiver.h"
#include "baton/handoff/core/sender.h"

#include "unit_memory.h"

namespace baton::handoff {

class HandoffPair {
 public:
  static constexpr std::int64_t length = 37;  // two full units and a partial one
  static constexpr std::uint32_t layers = 3;

  HandoffPair()
      : sender(geometry(), fingerprint(1), SenderLimits{}),
        receiver(geometry(), fingerprint(1), receiver_epoch, ReceiverLimits{}) {
    sender.link_up(link, NodeId("d"), receiver_epoch, secret, now);
    receiver.link_up(link, secret);
  }

  static Geometry geometry() {
    Geometry out;
    out.cache_dtype = 1;
    out.unit_bytes = Memory::unit_bytes;
    out.groups = {{0, {0, 2}}, {16, {1}}};
    return out;
  }
  static Digest256 fingerprint(std::uint8_t first) {
    Digest256 out;
    out.bytes[0] = first;
    return out;
  }
  /// The sender's blocks hold one unit, the receiver's two (COR-11).
  static std::vector<LocalBlocks> source_blocks() {
    return {{1, 0, {10, 11, 12}}, {1, 1, {21, 22}}};
  }
  static std::vector<LocalBlocks> target_blocks() { return {{2, 0, {5, 8}}, {2, 0, {7, 9}}}; }
  static protocol::Grant grant() {
    return {77, length, {{0, 2, 0, {{5, 1, 3}, {8, 1, 4}}}, {1, 2, 1, {{7, 1, 3}, {9, 1, 3}}}}};
  }

  void open_grant() { open(grant()); }
  void open(const protocol::Grant& granted) {
    receiver.open(key, granted, target_blocks());
    while (digest_next()) {
    }
  }
  /// False when nothing that is held lacks its digests.
  bool digest_next() {
    const std::optional<Receiver::HeldBlock> held = receiver.next_undigested();
    if (!held) return false;
    std::vector<Digest128> contents;
    for (const Piece& piece : held->pieces) {
      for (std::uint32_t i = 0; i < piece.count; ++i) {
        contents.push_back(content_digest(target_memory.at(piece, i)));
      }
    }
    digested.push_back(held->name.block);
    receiver.digested(*held, contents);
    return true;
  }

  /// Computes every layer; unit contents differ by place.
  void compute() {
    sender.begin(source, key, length, source_blocks(), now);
    for (std::uint32_t layer = 0; layer < layers; ++layer) {
      const Sender::ReadyUnits ready = sender.newly_ready(source, layer, length);
      std::vector<Digest128> digests;
      std::byte value{static_cast<unsigned char>(1 + layer * 16)};
      for (const Piece& piece : ready.pieces) {
        for (std::uint32_t i = 0; i < piece.count; ++i) {
          UnitBytes& bytes = source_memory.at(piece, i);
          bytes.assign(Memory::unit_bytes, value);
          value = std::byte{static_cast<unsigned char>(static_cast<unsigned>(value) + 1)};
          digests.push_back(content_digest(bytes));
        }
      }
      std::vector<Digest128> v(digests.begin() + ready.count, digests.end());
      digests.resize(ready.count);
      sender.units_ready(source, layer, ready.first, digests, v, now, now);
    }
  }

  void send_target() { send_target(grant()); }
  void send_target(protocol::Grant granted) {
    sender.target(source, key, NodeId("d"), receiver_epoch, std::move(granted), now);
  }

  void send_commit() {
    protocol::Tokens tokens;
    tokens.key = key;
    tokens.ids = {42};
    sender.commit(source, 0, tokens, now, now);
  }

  /// Carries everything to and fro until nothing moves.
  void run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (SenderEffect& effect : sender.take_effects()) {
        moved = true;
        std::visit([this](auto& each) { carry(each); }, effect);
      }
      for (ReceiverEffect& effect : receiver.take_effects()) {
        moved = true;
        std::visit([this](auto& each) { carry(each); }, effect);
      }
    }
  }

  // What a test may change or look at.
  std::function<void(protocol::UnitHeader&)> change_header = [](auto&) {};
  std::function<void(const protocol::UnitHeader&, std::vector<UnitBytes>&)> change_payload =
      [](const auto&, auto&) {};
  std::function<void(protocol::Commit&)> change_commit = [](auto&) {};
  bool lose_answers = false;

  const protocol::AttemptKey key{{1, 2}, {1, 1}};
  const SourceId source{1};
  const LinkId link{9};
  const RequestId secret{3, 4};
  const Epoch receiver_epoch{55};
  Instant now{};
  Sender sender;
  Receiver receiver;
  Memory source_memory{std::byte{0x11}};
  Memory target_memory{std::byte{0xEE}};
  std::vector<Reason> units_refused;
  std::vector<Reason> commits_refused;
  std::vector<CommitVerified> verified;
  std::vector<SourceAccepted> accepted;
  std::vector<SourceFailed> failed;
  std::vector<SourceIdle> idle;
  std::vector<std::uint64_t> closed;
  std::vector<std::uint64_t> differ;
  int messages = 0;
  std::vector<UnitPlace> written;
  std::vector<std::int32_t> digested;  ///< blocks that were read to be digested

 private:
  struct Flight {
    TransferId send;
    protocol::UnitHeader header;
    std::vector<UnitBytes> payload;
  };

  void carry(SendUnits& effect);
  void carry(AcceptUnits& effect);
  void carry(RefuseUnits& effect) {
    units_refused.push_back(effect.reason);
    sender.send_done(take(effect.offer).send, SendOutcome::refused, now);
  }
  void carry(SendCommit& effect) {
    sender.commit_sent(effect.source, now);
    change_commit(effect.commit);
    receiver.commit(link, effect.commit, now);
  }
  void carry(RefuseCommit& effect) {
    commits_refused.push_back(effect.message.reason);
    if (!lose_answers) sender.commit_refused(link, effect.message, now);
  }
  void carry(CommitVerified& effect) {
    verified.push_back(effect);
    if (!lose_answers) sender.accepted(link, {effect.commit.key}, now);
  }
  void carry(CancelSend& effect) { sender.send_done(effect.id, SendOutcome::cancelled, now); }
  void carry(CancelReceive&) {}
  void carry(SourceAccepted& effect) { accepted.push_back(effect); }
  void carry(SourceFailed& effect) { failed.push_back(effect); }
  void carry(SourceIdle& effect) { idle.push_back(effect); }
  void carry(GrantClosed& effect) { closed.push_back(effect.grant); }
  void carry(HeldUnitsDiffer& effect) { differ.push_back(effect.grant); }

  Flight take(TransferId offer) {
    Flight flight = std::move(flights_.at(offer));
    flights_.erase(offer);
    return flight;
  }

  std::uint64_t next_offer_ = 1000;
  std::map<TransferId, Flight> flights_;
};

}  // namespace baton::handoff
