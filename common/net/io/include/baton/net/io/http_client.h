// A small synchronous HTTP client for the command line, health checks and tests: one connection per
// request, on a loop of its own. Not for a node's event loop: it blocks its caller.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "baton/base/endpoint.h"
#include "baton/base/result.h"
#include "baton/base/time.h"
#include "baton/net/io/http.h"

namespace baton::net {

struct HttpCall {
  std::string method = "GET";
  std::string target = "/";
  HttpHeaders headers;  ///< Host, Content-Length and Connection are added
  std::string body;

  Duration connect_time = std::chrono::seconds(5);
  Duration idle_time = std::chrono::seconds(60);  ///< longest wait for the next byte
  Duration total_time = std::chrono::hours(1);
  std::size_t body_limit_bytes = 64 * 1024 * 1024;  ///< of a body that is collected

  /// Gets the body piece by piece as it comes (it is then not collected); false ends the call with
  /// Reason::cancelled. Called for every status: see on_head to tell an error's body apart.
  std::function<bool(std::string_view)> on_body;

  /// Called before the first piece of the body.
  std::function<void(const HttpResponse&)> on_head;

  /// Asked about every 50 ms; false ends the call with Reason::cancelled (Ctrl-C).
  std::function<bool()> keep_going;
};

/// Any complete answer is a value, whatever its status. Reason::io_error: no connection, or it
/// broke before the answer's end; deadline_exceeded: one of the times ran out; protocol_violation:
/// not HTTP or a body above the limit.
Result<HttpResponse> http_call(const Endpoint& server, const HttpCall& call);

}  // namespace baton::net
