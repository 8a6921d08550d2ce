// What every transport is configured with. The defaults are right for production; tests shorten the
// deadlines.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

#include "baton/base/time.h"

namespace baton::transport {

struct Options {
  /// ucx only: "ip:port" (IPv6 in brackets) of the listener; port 0 lets the system choose.
  /// Loopback unless configured (R28). The address also chooses the network device.
  std::string bind_address = "127.0.0.1:0";

  /// A connection that has not presented an expected token by then is closed (SEC-15).
  Duration hello_deadline = std::chrono::seconds(5);
  /// A connect() that was not answered by then ends in PeerDown.
  Duration connect_deadline = std::chrono::seconds(5);
  /// ucx only: an operation in flight ends when its peer answers. A peer that does not answer a
  /// cancel within this time is closed, which ends the operation.
  Duration cancel_grace = std::chrono::milliseconds(250);
  /// How long poll() looks for work before it sleeps.
  Duration spin = std::chrono::microseconds(20);

  /// Sends to one peer that are open at a time; one more is Reason::no_space. Both sides of a
  /// connection need the same value: a peer that exceeds the receiver's is closed.
  std::size_t max_open_sends = 64;
  /// Payload of one send; a peer that announces more is closed (R7).
  std::size_t max_payload_bytes = std::size_t{1} << 30;
};

}  // namespace baton::transport
