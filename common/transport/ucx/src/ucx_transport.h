// The transport itself. UCX calls back inside a worker's progress; callbacks only change flags and
// queues, what may close an endpoint or erase a table entry happens afterwards in poll().
//
// Each payload is one message with a scattered list on both sides. A scattered receive is never
// given an address that the sender could write to: the sender answers the receiver's request with
// messages, which the receiver's UCX unpacks. UCX cannot cancel such a receive, so a cancelled one
// is over when the sender has answered, or when the endpoint was closed by force.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <ucp/api/ucp.h>

#include "baton/transport/memory.h"
#include "baton/transport/options.h"
#include "baton/transport/transport.h"

#include "context.h"
#include "handshake.h"
#include "wire.h"

namespace baton::transport::ucx {

class UcxTransport final : public Transport {
 public:
  explicit UcxTransport(const Options& options) : options_(options) {}
  ~UcxTransport() override;

  /// Before anything else.
  Result<void> start();

  std::string_view name() const override { return "ucx"; }
  std::string address() const override { return "ucx:" + bound_address(listener_.get()); }
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
  /// The connection of a peer, from its first byte to its last.
  struct Link {
    Link(UcxTransport* owner_transport, PeerId peer_id, Handshake connection)
        : owner(owner_transport), peer(peer_id), handshake(std::move(connection)) {}

    UcxTransport* owner;
    PeerId peer;
    std::optional<Handshake> handshake;
    std::unique_ptr<Worker> worker;
    ucp_ep_h endpoint = nullptr;  ///< from the other side's greeting on
    Instant last_heard{};
    std::optional<Failure> failure;
    bool closing = false;
    Instant close_deadline{};
    void* close_request = nullptr;
    std::size_t operations = 0;  ///< UCX requests in flight
  };
  /// Has yet to present a token; nothing of UCX exists for it.
  struct Stranger {
    Handshake handshake;
    Instant deadline;
  };
  struct Peer {
    enum class State { expected, connecting, up } state = State::expected;
    PairToken token;
    Instant deadline{};  ///< while connecting
    std::unique_ptr<Link> link;
    std::optional<Failure> failure;  ///< of a peer without a link
    std::uint64_t next_send = 0;
    std::map<std::uint64_t, SendId> sends;  ///< by sequence, until the verdict
    std::uint64_t next_offer = 0;
    std::map<std::uint64_t, OfferId> offers;
  };
  struct OpenSend {
    SendId id;
    Link* link = nullptr;
    std::uint64_t sequence = 0;
    std::vector<std::byte> header;
    std::vector<std::byte> eager;     ///< a small payload, copied
    std::vector<ucp_dt_iov_t> parts;  ///< or a large one, in place
    bool posted = false;              ///< UCX still uses header, eager and parts
    std::optional<Status> verdict;
    std::optional<Instant> cancelled_at;
  };
  struct OpenOffer {
    OfferId id;
    Link* link = nullptr;
    std::uint64_t sequence = 0;
    std::size_t bytes = 0;
    void* rendezvous = nullptr;    ///< UCX's descriptor, until accepted or released
    std::vector<std::byte> eager;  ///< the payload if there is no rendezvous
    std::vector<ucp_dt_iov_t> parts;
    bool accepted = false;
    bool posted = false;
    Status status = Status::ok;  ///< what a completed receive reports
    std::optional<Instant> cancelled_at;
  };
  struct ControlMessage {
    Link* link = nullptr;
    ControlHeader header;
  };

  // ucx.cc
  void look_at_sockets();
  bool progress();
  void expire(Instant now);
  Instant next_deadline(Instant until) const;
  void sleep_until(Instant until);
  void watch(int descriptor, bool for_write) const;

  // endpoints.cc
  static void on_endpoint_error(void* argument, ucp_ep_h endpoint, ucs_status_t status);
  void meet_strangers();
  void admit(Handshake handshake, const Greeting& greeting);
  void step_handshake(PeerId id, Peer& peer);
  Result<void> make_worker(Link& link);
  Result<void> make_endpoint(Link& link, const Greeting& greeting);
  static void fail(Link& link, Status status, Error error);
  void close_failed_links();
  static void close_link(Link& link);
  static bool is_closed(Link& link);
  void end_peer(PeerId id, const Failure& failure);

  // control.cc
  static ucs_status_t on_control(void* argument, const void* header, std::size_t header_bytes,
                                 void* data, std::size_t bytes, const ucp_am_recv_param_t* param);
  static void on_control_sent(void* request, ucs_status_t status, void* user_data);
  static void post_control(Link& link, const ControlHeader& header);

  // send.cc
  static void on_sent(void* request, ucs_status_t status, void* user_data);
  static ucs_status_t post_send(OpenSend& send);
  void on_verdict(Link& link, const ControlHeader& header);
  void end_finished_sends();

  // receive.cc
  static ucs_status_t on_offer(void* argument, const void* header, std::size_t header_bytes,
                               void* data, std::size_t bytes, const ucp_am_recv_param_t* param);
  static void on_received(void* request, ucs_status_t status, std::size_t bytes, void* user_data);
  bool check_offer(Link& link, const void* header, std::size_t header_bytes, std::size_t bytes,
                   bool eager);
  void on_cancel(Link& link, std::uint64_t sequence);
  void post_receive(OpenOffer& offer, std::span<const Extent> extents);
  void end_offer(OfferId id, Status status);
  void end_finished_receives();

  const Options options_;
  MemoryRegistry memory_;
  Context context_;
  std::map<PeerId, Peer> peers_;  // after the context: workers end before it
  std::vector<Stranger> strangers_;
  std::map<SendId, OpenSend> sends_;
  std::map<OfferId, OpenOffer> offers_;
  std::vector<SendId> finished_sends_;
  std::vector<OfferId> finished_receives_;
  std::vector<std::byte> sink_;  ///< takes what a truncated receive has no room for
  std::uint32_t next_peer_ = 1;
  std::uint64_t next_offer_ = 1;
  std::vector<Event> events_;
  Descriptor listener_;
  Descriptor wake_;
  Descriptor epoll_;  ///< sleeps on all descriptors of all connections
  Instant next_look_{};
  bool woken_ = false;
};

}  // namespace baton::transport::ucx
