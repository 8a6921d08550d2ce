// HTTP/1.1 server: parsing, limits, keep-alive, streaming and the client's disappearance. Knows no
// routes and no API: bodies of its own errors come from a callback.
//
// Everything here runs on the loop's thread. Malformed input is answered and closes its own
// connection only (R6). Pipelined requests are handled one after the other; a client that pipelines
// more than 64 KiB behind an answer that takes longer than a second is given up, because its end
// could not be seen. A client that ends its side of the connection has left.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "baton/base/endpoint.h"
#include "baton/base/result.h"
#include "baton/base/time.h"
#include "baton/net/io/event_loop.h"
#include "baton/net/io/http.h"

namespace baton::net {

/// The limits of R20. What is exceeded is answered with the status named and the connection closed.
struct HttpLimits {
  std::size_t header_bytes = 16 * 1024;                   ///< 431
  std::size_t header_fields = 100;                        ///< 431; trailers count
  std::size_t header_line_bytes = 8 * 1024;               ///< 431; the request line too
  Duration header_time = std::chrono::seconds(10);        ///< 408; from accept or first byte
  std::size_t body_bytes = 4 * 1024 * 1024;               ///< 413; chunked too
  Duration body_idle_time = std::chrono::seconds(10);     ///< 408
  std::size_t body_min_bytes_per_s = 1024;                ///< 408; after body_idle_time
  Duration body_time = std::chrono::seconds(60);          ///< 408; for the whole body
  Duration keep_alive_time = std::chrono::seconds(60);    ///< closed; between two requests
  std::size_t keep_alive_requests = 1000;                 ///< the last answer says "close"
  std::size_t connections = 4096;                         ///< 503
  std::size_t connections_per_address = 64;               ///< 429; 0: unlimited
  std::size_t stream_buffer_bytes = 256 * 1024;           ///< unsent bytes of a stream; disconnect
  Duration write_stall_time = std::chrono::seconds(20);   ///< no byte taken; disconnect
  Duration stop_grace = std::chrono::milliseconds(1500);  ///< reading on after an early answer, so
                                                          ///< that the client can read it
};

/// The answer to one request. Loop thread only, but the last reference may be dropped on any
/// thread; may be kept as long as wished, but not longer than the loop. Calls after the client has
/// gone do nothing. If the last reference is dropped before send() or finish(), the client gets a
/// 500, or its stream is cut.
class HttpResponder {
 public:
  /// Called with the moment when the kernel had taken the last byte; never if it takes it not. May
  /// be called inside the call that it was given to.
  using Written = std::function<void(Instant)>;

  virtual ~HttpResponder() = default;

  /// The whole answer. Content-Length, Connection and Date are added here. Once, and not after
  /// start_stream().
  virtual void send(int status, const HttpHeaders& headers, std::string body,
                    Written on_written = {}) = 0;

  /// Begins a streamed answer: chunked, or until close for HTTP/1.0. The head goes out at once.
  virtual void start_stream(int status, const HttpHeaders& headers) = 0;

  /// Sends one piece of the stream at once (no Nagle delay, no batching). False when the client is
  /// gone, or has just been given up because more than stream_buffer_bytes wait for it.
  virtual bool write(std::string_view chunk, Written on_written = {}) = 0;

  /// Ends the stream properly. The connection lives on where keep-alive allows.
  virtual void finish(Written on_written = {}) = 0;

  /// Cuts the connection, so that the client cannot take the answer for a whole one.
  virtual void abort() = 0;

  /// `fn` is called once, on the loop and never inside another call of this interface, when the
  /// client goes away or is given up before send() or finish(). Set after that it is called too.
  virtual void on_disconnect(std::function<void()> fn) = 0;

  /// The client was there at the last look and the answer is not complete.
  virtual bool open() const = 0;

  /// Bytes of this connection that the kernel has not taken yet.
  virtual std::size_t buffered_bytes() const = 0;
};

/// May answer at once or later; must not block.
using HttpHandler = std::function<void(HttpRequest, std::shared_ptr<HttpResponder>)>;

/// The JSON body for an error of the server itself; the status is the reason's.
using HttpErrorBody = std::function<std::string(const Error&)>;

struct HttpServerStats {
  std::uint64_t accepted = 0;             ///< connections, refused ones not counted
  std::uint64_t refused_connections = 0;  ///< over a connection limit
  std::uint64_t requests = 0;             ///< given to the handler
  std::uint64_t bad_requests = 0;         ///< answered 400, 413 or 431 by the server
  std::uint64_t timeouts = 0;             ///< 408
  std::uint64_t disconnects = 0;          ///< client went away before its answer was complete
  std::uint64_t given_up = 0;             ///< of these: stalled or buffer full
  std::size_t open_connections = 0;
};

class HttpServer {
 public:
  struct Options {
    Endpoint endpoint;  ///< IP literal or "localhost"; check_bind() is the caller's duty
    HttpLimits limits;
    HttpHandler handler;
    HttpErrorBody error_body;  ///< required
  };

  /// Reason::io_error when the address cannot be bound.
  static Result<std::unique_ptr<HttpServer>> listen(EventLoop& loop, Options options);

  /// Closes every connection (responders may live on); on_disconnect is not called.
  ~HttpServer();

  /// The bound endpoint, with the port that the system chose for 0.
  const Endpoint& endpoint() const;

  /// Accepts no more, closes idle connections, says "Connection: close" on every further answer.
  void drain();

  HttpServerStats stats() const;

 private:
  class Impl;
  explicit HttpServer(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

}  // namespace baton::net
