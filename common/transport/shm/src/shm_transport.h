// The transport itself: connections, open sends and offers. See shm.h for the idea.
//
// A copy is trusted only if, after it, the socket shows neither a cancel nor the end of the
// connection: the sender queues those before it may touch the memory again. So a sender is free at
// once even if the receiver is stopped, and a torn copy is never reported as received.
#pragma once

#include <bitset>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "baton/transport/memory.h"
#include "baton/transport/options.h"
#include "baton/transport/transport.h"

#include "connection.h"
#include "host.h"
#include "mapped_regions.h"
#include "wire.h"

namespace baton::transport::shm {

class ShmTransport final : public Transport {
 public:
  ShmTransport(const Options& options, Host host, std::string socket_name)
      : options_(options), host_(std::move(host)), socket_name_(std::move(socket_name)) {}

  /// Before anything else. Reason::io_error.
  Result<void> start();

  std::string_view name() const override { return "shm"; }
  std::string address() const override { return make_address(host_, socket_name_); }
  Result<void> register_memory(tensor::SharedBuffer& memory) override {
    return memory_.add(memory);
  }
  Result<PeerId> connect(std::string_view address, PairToken token) override;
  PeerId expect(PairToken token) override;
  void close(PeerId peer) override;
  Result<void> send(SendId id, PeerId peer, std::span<const std::byte> header,
                    std::span<const Extent> extents) override;
  void accept(OfferId offer, std::span<const Extent> extents) override;
  void refuse(OfferId offer) override;
  void cancel_send(SendId id) override;
  void cancel_receive(OfferId offer) override;
  void poll(Duration max_wait, std::vector<Event>& events) override;
  int arm() override;
  void wake() override;

 private:
  struct Failure {
    Status status = Status::peer_lost;
    Error error;
  };
  struct Peer {
    enum class State { expected, connecting, up } state = State::expected;
    PairToken token;
    std::unique_ptr<Connection> connection;
    Instant deadline{};  ///< while connecting
    std::optional<Failure> failure;
    bool wants_write = false;

    std::bitset<MemoryRegistry::max_regions> regions_sent;
    std::uint64_t next_send = 0;
    /// Slots of this side's sends, until the verdict; the send itself may have ended before.
    std::map<std::uint64_t, SendId> sends;

    MappedRegions mapped;
    std::uint64_t next_offer = 0;
    std::map<std::uint64_t, OfferId> offers;
  };
  struct OpenSend {
    PeerId peer;
    std::uint64_t sequence = 0;
    bool cancelling = false;
  };
  struct OpenOffer {
    PeerId peer;
    std::uint64_t sequence = 0;
    std::vector<std::span<const std::byte>> source;
    std::size_t bytes = 0;
    Status status = Status::ok;       ///< what a finished copy reports
    std::optional<ScatterCopy> copy;  ///< from accept() on
  };
  struct Stranger {
    Connection connection;
    Instant deadline;
  };

  // shm.cc
  PeerId add_peer(PairToken token, Peer::State state);
  void post(PeerId id, Peer& peer, const Message& message, int file = -1,
            std::optional<SendId> written = {});
  void flush(PeerId id, Peer& peer);
  void fail(Peer& peer, Status status, Error error);
  void end_send(SendId id, Status status);
  void end_offer(OfferId id, Status status);
  void send_new_regions(PeerId id, Peer& peer);

  // shm_events.cc
  void progress();
  void accept_strangers();
  void hear_stranger(int descriptor);
  void admit(Connection connection, const Hello& hello);
  void hear_peer(PeerId id);
  void handle(PeerId id, Peer& peer, const Message& message, Descriptor file);
  void on_offer(PeerId id, Peer& peer, const Offer& offer);
  void on_verdict(Peer& peer, const Verdict& verdict);
  void on_cancel(Peer& peer, const Cancel& cancel);
  void step_copies();
  void expire(Instant now);
  void end_failed_peers();
  void end_peer(PeerId id);
  void sleep_until(Instant until);
  void watch(int descriptor, bool for_write, bool add);

  const Options options_;
  const Host host_;
  const std::string socket_name_;
  Descriptor listener_;
  Descriptor epoll_;
  Descriptor wake_;
  MemoryRegistry memory_;
  std::map<PeerId, Peer> peers_;
  std::map<int, PeerId> peer_of_descriptor_;
  std::map<int, Stranger> strangers_;
  std::map<SendId, OpenSend> sends_;
  std::map<OfferId, OpenOffer> offers_;
  std::deque<OfferId> copies_;
  std::uint32_t next_peer_ = 1;
  std::uint64_t next_offer_ = 1;
  std::vector<Event> events_;
  std::vector<std::byte> buffer_;
  bool woken_ = false;
};

}  // namespace baton::transport::shm
