// The meeting before UCX: a TCP connection on which the connecting side presents a token and both
// learn the other's UCX address. It stays open as a sign of life: its end is the peer's end.
//
// UCX's own listener is not used: in 1.13 a few stray bytes on it end the process (SEC-15).
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "baton/base/result.h"
#include "baton/transport/descriptor.h"
#include "baton/transport/transport.h"

#include "address.h"

namespace baton::transport::ucx {

/// What each side says, once. The answer carries no token.
struct Greeting {
  PairToken token;
  std::vector<std::byte> worker_address;
};

/// One end of such a connection; never blocks.
class Handshake {
 public:
  explicit Handshake(Descriptor socket) : socket_(std::move(socket)) {}

  int descriptor() const { return socket_.get(); }
  bool wants_write() const { return !outbox_.empty(); }

  void say(const Greeting& greeting);

  /// Writes and reads what it can. Reason::transport_failed if the connection is refused or over,
  /// Reason::protocol_violation if it speaks something else or more than one greeting.
  Result<void> step();

  /// The other side's greeting, once it is whole.
  std::optional<Greeting> take_greeting();

 private:
  Result<void> write_outbox();
  Result<void> read_inbox();

  Descriptor socket_;
  std::vector<std::byte> outbox_;
  std::vector<std::byte> inbox_;
  bool greeted_ = false;
};

/// A listening socket. Reason::transport_failed.
Result<Descriptor> listen_at(const SocketAddress& address);

/// The address the socket is bound to, "ip:port".
std::string bound_address(int descriptor);

/// A connection being made; whether it comes about shows in step().
Result<Descriptor> start_connecting(const SocketAddress& address);

/// The next waiting connection; none if there is none.
Descriptor accept_from(int listener);

}  // namespace baton::transport::ucx
