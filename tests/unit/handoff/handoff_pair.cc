#include "handoff_pair.h"

namespace baton::handoff {

void HandoffPair::carry(SendUnits& effect) {
  ++messages;
  Flight flight{effect.id, effect.header, {}};
  for (const Piece& piece : effect.pieces) {
    for (std::uint32_t i = 0; i < piece.count; ++i) {
      flight.payload.push_back(source_memory.at(piece, i));
    }
  }
  change_header(flight.header);
  change_payload(flight.header, flight.payload);
  const TransferId offer{next_offer_++};
  const std::uint64_t bytes = flight.payload.size() * Memory::unit_bytes;
  const Result<protocol::UnitHeader> header =
      protocol::decode_unit_header(protocol::encode(flight.header));
  flights_.emplace(offer, std::move(flight));
  receiver.offered(link, offer, header, bytes);
}

void HandoffPair::carry(AcceptUnits& effect) {
  const Flight flight = take(effect.offer);
  std::vector<Digest128> contents;
  std::size_t at = 0;
  for (const Piece& piece : effect.pieces) {
    for (std::uint32_t i = 0; i < piece.count; ++i) {
      UnitBytes& bytes = target_memory.at(piece, i);
      bytes = flight.payload[at++];
      contents.push_back(content_digest(bytes));
      written.emplace_back(piece.group, piece.layer_in_group, static_cast<int>(piece.component),
                           piece.block, piece.unit + i);
    }
  }
  receiver.received(effect.offer, contents);
  sender.send_done(flight.send, SendOutcome::ok, now);
}

}  // namespace baton::handoff
