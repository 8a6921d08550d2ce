// HTTP as values: what server and client share.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "baton/base/time.h"

namespace baton::net {

/// In the order sent; names as written.
using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

/// The first header of that name (letter case does not matter), or nothing.
std::optional<std::string_view> find_header(const HttpHeaders& headers, std::string_view name);

struct HttpRequest {
  std::string method;  ///< as sent: "GET", "POST", …
  std::string path;  ///< target before '?', not percent-decoded, always starts with '/' (or is '*')
  std::string query;  ///< target after '?', not decoded; empty when there is none
  HttpHeaders headers;
  std::string body;
  std::string peer;       ///< "address:port" of the client's end of the connection
  Instant first_byte_at;  ///< when the request's first byte was read
  Instant received_at;    ///< when its last byte was read: the start of TTFT

  std::optional<std::string_view> header(std::string_view name) const {
    return find_header(headers, name);
  }
};

struct HttpResponse {
  int status = 0;
  HttpHeaders headers;
  std::string body;

  std::optional<std::string_view> header(std::string_view name) const {
    return find_header(headers, name);
  }
};

}  // namespace baton::net
