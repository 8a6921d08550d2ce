// Heads of HTTP messages as text.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "baton/net/io/http.h"

namespace baton::net {

bool same_header_name(std::string_view a, std::string_view b);

std::string_view status_text(int status);

/// "Name: value\r\n"; control characters in a value (they could end the line) become spaces.
void append_header(std::string& out, std::string_view name, std::string_view value);

/// "Sun, 06 Nov 1994 08:49:37 GMT", of now.
std::string http_date();

}  // namespace baton::net
