// Moving bytes between two workers: two-sided, so nobody writes into another's memory.
//
//   sender:   send(id, peer, header, extents) ──▶ ... ──▶ SendDone
//   receiver: Offered(offer, peer, header, bytes) ──▶ accept(offer, extents) | refuse(offer)
//                                                  ──▶ ReceiveDone
//
// Lifetimes. The sender's extents stay untouched until its SendDone, the receiver's until its
// ReceiveDone: each side learns from its own events alone when its memory is reusable. close(peer)
// and cancel_* bring these events about promptly (status cancelled or peer_lost), also when the
// peer is stopped or gone. Every started send and every accepted offer ends in exactly one Done
// event.
//
// Threads. An instance belongs to one thread, which calls poll() and everything else; only wake()
// may be called from others. Non-goals: what the bytes mean, retries, deadlines (handoff/ has
// them).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "baton/base/ids.h"
#include "baton/base/result.h"
#include "baton/base/strong.h"
#include "baton/base/time.h"
#include "baton/tensor/shared_buffer.h"

namespace baton::transport {

using PeerId = Strong<std::uint32_t, struct PeerIdTag>;
using SendId = Strong<std::uint64_t, struct SendIdTag>;    ///< chosen by the sender, unique
using OfferId = Strong<std::uint64_t, struct OfferIdTag>;  ///< chosen by the transport

/// Drawn by the accepting side, told to the connecting side over the control connection: a data
/// connection that does not present an expected token is closed.
using PairToken = Strong<RequestId, struct PairTokenTag>;

/// Headers are small; a longer one is refused by send() and closes the peer on receipt.
inline constexpr std::size_t max_header_bytes = 16 * 1024;
inline constexpr std::size_t max_extents = 4096;

struct Extent {
  std::byte* data = nullptr;
  std::size_t bytes = 0;
};

enum class Status : std::uint8_t { ok, refused, cancelled, truncated, peer_lost, failed };

struct Offered {
  OfferId offer;
  PeerId peer;
  std::vector<std::byte> header;
  std::size_t bytes = 0;  ///< announced payload
};
struct SendDone {
  SendId send;
  Status status = Status::ok;
};
struct ReceiveDone {
  OfferId offer;
  Status status = Status::ok;
};
struct PeerUp {
  PeerId peer;
};
/// Comes once, after all Done events of the peer's sends and receives. Its offers that were never
/// accepted are over; accepting one still gives ReceiveDone(cancelled).
struct PeerDown {
  PeerId peer;
  Error error;
};
using Event = std::variant<Offered, SendDone, ReceiveDone, PeerUp, PeerDown>;

class Transport {
 public:
  virtual ~Transport() = default;

  /// "loopback", "shm", "ucx".
  virtual std::string_view name() const = 0;
  /// Where peers connect to; opaque, <= 4 KiB, sent over control.
  virtual std::string address() const = 0;

  /// Makes a cache arena usable in extents, of which it is the only permitted memory. Called before
  /// the first send or accept from it; the buffer outlives the transport.
  virtual Result<void> register_memory(tensor::SharedBuffer& memory) = 0;

  /// Starts connecting; PeerUp or PeerDown follows.
  virtual Result<PeerId> connect(std::string_view address, PairToken token) = 0;
  /// A peer that will connect and present `token`; PeerUp follows when it did.
  virtual PeerId expect(PairToken token) = 0;
  /// Ends the connection; Done events of whatever is open, then PeerDown, come from poll().
  virtual void close(PeerId peer) = 0;

  /// Sends are delivered as offers in the order of the calls. Reason::no_space: too many are open,
  /// nothing was started, try again after a SendDone. Reason::transport_failed: the peer is down.
  /// Reason::invalid_request: a limit or unregistered memory. SendDone's status is what became of
  /// the receive: ok, truncated, refused, cancelled (by either side), failed; or peer_lost, when
  /// that cannot be known any more.
  virtual Result<void> send(SendId id, PeerId peer, std::span<const std::byte> header,
                            std::span<const Extent> extents) = 0;
  /// Receives the payload into `extents`, in order. Bytes received = min(announced, room) (R12);
  /// a payload larger than the room ends as truncated. Extents outside registered memory are a
  /// failed CHECK. An offer that its sender has cancelled, or whose peer is gone, ends in
  /// ReceiveDone(cancelled) and touches nothing.
  virtual void accept(OfferId offer, std::span<const Extent> extents) = 0;
  /// Ends the offer without a ReceiveDone; the sender gets SendDone(refused).
  virtual void refuse(OfferId offer) = 0;

  /// SendDone follows: cancelled, or whatever the receiver had done before it learned of this.
  virtual void cancel_send(SendId id) = 0;
  /// ReceiveDone follows; only then is the memory reusable. An offer that was not accepted stays
  /// as it is.
  virtual void cancel_receive(OfferId offer) = 0;

  /// Makes progress and appends events. Spins briefly, then sleeps up to `max_wait` on a descriptor
  /// until there is something to do or wake() is called.
  virtual void poll(Duration max_wait, std::vector<Event>& events) = 0;
  /// For a thread that drives several transports and sleeps on all of them: a descriptor that
  /// becomes readable when poll() has something to do, or -1 when it has already. Called before
  /// each sleep.
  virtual int arm() = 0;
  virtual void wake() = 0;
};

}  // namespace baton::transport
