// Control links: frames (baton/net/frame.h) over TCP. Knows no message type. Everything runs on the
// loop's thread.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "baton/base/endpoint.h"
#include "baton/base/result.h"
#include "baton/base/time.h"
#include "baton/net/frame.h"
#include "baton/net/io/event_loop.h"

namespace baton::net {

struct FrameLimits {
  std::size_t frame_bytes = max_frame_bytes;
  std::size_t outbox_frames = 4096;
  std::size_t outbox_bytes = 64 * 1024 * 1024;
  Duration hello_time = std::chrono::seconds(5);  ///< from accept to the first whole frame (SEC-15)
  Duration dead_peer_time =
      std::chrono::seconds(5);     ///< unacknowledged bytes or silence of its TCP
  std::size_t connections = 1024;  ///< accepted ones; a further one is closed
  std::size_t silent_connections =
      64;  ///< accepted, no frame yet; the oldest is closed for a new one
};

/// One link. It lives until it is closed, also when nobody holds it; then it forgets its callbacks.
class FrameConnection {
 public:
  virtual ~FrameConnection() = default;

  /// Queues one frame; those of one turn of the loop leave together. False when the link is closed,
  /// or just failed because its outbox was full: nothing queued is then worth keeping.
  virtual bool send(std::string_view payload) = 0;

  /// Delivers no more frames, sends what is queued (for at most a second) and closes. on_closed is
  /// not called.
  virtual void close() = 0;

  /// The view is valid during the call.
  virtual void on_frame(std::function<void(std::string_view)> fn) = 0;

  /// Called once, never inside another call of this interface, when the link ends other than by
  /// close(): transport_failed (peer closed or died), protocol_violation (bad frame),
  /// deadline_exceeded (no hello), overloaded (outbox full).
  virtual void on_closed(std::function<void(Error)> fn) = 0;

  virtual bool open() const = 0;
  virtual const std::string& peer() const = 0;  ///< "address:port"
  virtual std::size_t outbox_frames() const = 0;
  virtual std::size_t outbox_bytes() const = 0;
};

class FrameServer {
 public:
  /// Sets the callbacks of a new link; reading starts after it has returned.
  using OnAccept = std::function<void(std::shared_ptr<FrameConnection>)>;

  /// Reason::io_error when the address cannot be bound.
  static Result<std::unique_ptr<FrameServer>> listen(EventLoop& loop, const Endpoint& endpoint,
                                                     const FrameLimits& limits, OnAccept on_accept);

  /// Stops accepting and closes the links that it accepted, without on_closed.
  ~FrameServer();

  /// The bound endpoint, with the port that the system chose for 0.
  const Endpoint& endpoint() const;

  std::size_t open_connections() const;

 private:
  class Impl;
  explicit FrameServer(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

/// Opens links. Reconnecting and its back-off are the caller's.
class FrameClient {
 public:
  using OnConnect = std::function<void(Result<std::shared_ptr<FrameConnection>>)>;

  FrameClient(EventLoop& loop, FrameLimits limits);

  /// Attempts that are still running are dropped without their callback; open links live on.
  ~FrameClient();

  /// Resolves and connects. The callback comes once, never inside this call: a link whose reading
  /// starts after the callback has returned (so it sets on_frame and on_closed), transport_failed,
  /// or deadline_exceeded.
  void connect(const Endpoint& server, Duration deadline, OnConnect on_connect);

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace baton::net
