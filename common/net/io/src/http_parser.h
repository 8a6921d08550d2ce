// HTTP/1 messages out of bytes, without a socket. The only file that knows Beast stands behind
// this.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string_view>

#include "baton/base/result.h"
#include "baton/net/io/http.h"
#include "baton/net/io/http_server.h"

namespace baton::net {

/// One request after the other, within the limits of size and number (time is the connection's).
class RequestParser {
 public:
  explicit RequestParser(const HttpLimits& limits);
  ~RequestParser();

  /// Takes bytes from the front and says how many; the rest has to be presented again, with more
  /// behind it. Stops after the header, and after the request's end. Reasons: invalid_request,
  /// header_too_large, body_too_large.
  Result<std::size_t> feed(std::string_view bytes);

  bool header_done() const;
  bool done() const;
  std::size_t body_bytes() const;  ///< received so far
  bool expects_continue() const;   ///< the client waits for "100 Continue" before the body
  bool keep_alive() const;
  bool is_http_1_0() const;

  /// The finished request (peer and times are not set); the parser is ready for the next one.
  HttpRequest take();

 private:
  class Sink;
  const HttpLimits& limits_;
  std::unique_ptr<Sink> sink_;
  std::size_t header_bytes_ = 0;
};

/// The answer to one request.
class ResponseParser {
 public:
  struct Events {
    std::function<void(HttpResponse)> on_head;  ///< body still empty
    std::function<void(std::string_view)> on_body;
  };
  ResponseParser(bool to_head_request, Events events);
  ~ResponseParser();

  /// As above; Reason::protocol_violation. Intermediate 1xx answers are skipped.
  Result<std::size_t> feed(std::string_view bytes);

  /// The connection has ended: whether that was the end of the answer too.
  bool ends_here();
  bool done() const;

 private:
  class Sink;
  void restart();

  const bool to_head_request_;
  Events events_;
  std::unique_ptr<Sink> sink_;
};

}  // namespace baton::net
