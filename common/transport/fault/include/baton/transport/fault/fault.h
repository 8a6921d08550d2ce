// A transport that misbehaves on purpose, as a decorator of a real one. For tests.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "baton/base/time.h"
#include "baton/transport/transport.h"

namespace baton::transport {

/// Every field defaults to "no fault". Probabilities are per send or per offer, in [0, 1]; the same
/// seed and the same calls give the same faults.
struct FaultPolicy {
  std::uint64_t seed = 0;

  // On the sender's side.
  double truncate = 0;             ///< the payload loses its last byte
  double duplicate = 0;            ///< sent twice; both are offers, SendDone comes after both ended
  std::size_t no_space_every = 0;  ///< every n-th send() answers Reason::no_space
  std::size_t lose_peer_after_sends = 0;  ///< the connection is closed after n sends, once

  // On the receiver's side.
  double drop_offer = 0;    ///< never shown; its sender waits until it cancels or closes
  double delay_offer = 0;   ///< shown `delay` later
  double reorder = 0;       ///< shown after the next offer, or `delay` later if none comes
  double flip_header = 0;   ///< one bit of the header shown is wrong
  double flip_payload = 0;  ///< one bit of the received payload is wrong before ReceiveDone(ok)
  Duration delay = std::chrono::milliseconds(5);
};

/// How often each fault happened: a test proves with it that it exercised something.
struct FaultCounts {
  std::size_t truncated = 0;
  std::size_t duplicated = 0;
  std::size_t no_space = 0;
  std::size_t lost_peers = 0;
  std::size_t dropped = 0;
  std::size_t delayed = 0;
  std::size_t reordered = 0;
  std::size_t headers_flipped = 0;
  std::size_t payloads_flipped = 0;
};

/// The threads and lifetimes of the inner transport's contract hold. SendIds with the top bit set
/// are this class's own.
class FaultTransport final : public Transport {
 public:
  FaultTransport(std::unique_ptr<Transport> inner, const FaultPolicy& policy)
      : inner_(std::move(inner)), policy_(policy), random_(policy.seed) {}

  const FaultCounts& counts() const { return counts_; }

  std::string_view name() const override { return inner_->name(); }
  std::string address() const override { return inner_->address(); }
  Result<void> register_memory(tensor::SharedBuffer& memory) override {
    return inner_->register_memory(memory);
  }
  Result<PeerId> connect(std::string_view address, PairToken token) override {
    return inner_->connect(address, token);
  }
  PeerId expect(PairToken token) override { return inner_->expect(token); }
  void close(PeerId peer) override { inner_->close(peer); }
  Result<void> send(SendId id, PeerId peer, std::span<const std::byte> header,
                    std::span<const Extent> extents) override;
  void accept(OfferId offer, std::span<const Extent> extents) override;
  void refuse(OfferId offer) override;
  void cancel_send(SendId id) override;
  void cancel_receive(OfferId offer) override { inner_->cancel_receive(offer); }
  void poll(Duration max_wait, std::vector<Event>& events) override;
  int arm() override { return held_.empty() ? inner_->arm() : -1; }
  void wake() override { inner_->wake(); }

 private:
  struct Held {
    Instant due;
    bool until_next = false;  ///< a reordered one: the next offer releases it
    Offered offered;
  };
  struct Twin {
    SendId copy;
    int open = 2;  ///< of the send and its copy
    Status status = Status::ok;
  };
  struct Flip {
    std::vector<Extent> extents;
    std::size_t bytes = 0;
  };

  bool happens(double probability);
  std::size_t below(std::size_t limit);
  void filter(Event event, std::vector<Event>& events);
  void on_offered(Offered offered, std::vector<Event>& events);
  void on_send_done(SendDone done, std::vector<Event>& events);
  void on_receive_done(const ReceiveDone& done);
  void release_due(std::vector<Event>& events);

  std::unique_ptr<Transport> inner_;
  const FaultPolicy policy_;
  FaultCounts counts_;
  std::mt19937_64 random_;
  std::size_t send_calls_ = 0;
  std::size_t sends_ = 0;
  std::deque<Held> held_;
  std::map<OfferId, std::size_t> announced_;
  std::map<OfferId, Flip> flips_;
  std::map<SendId, Twin> twins_;
};

}  // namespace baton::transport
