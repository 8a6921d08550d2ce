#include "baton/net/io/http.h"

#include <algorithm>
#include <array>
#include <ctime>

#include "http_head.h"

namespace baton::net {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

}  // namespace

bool same_header_name(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return lower(x) == lower(y); });
}

std::optional<std::string_view> find_header(const HttpHeaders& headers, std::string_view name) {
  for (const auto& [key, value] : headers) {
    if (same_header_name(key, name)) return value;
  }
  return std::nullopt;
}

std::string_view status_text(int status) {
  struct Entry {
    int status;
    std::string_view text;
  };
  static constexpr std::array entries = {
      Entry{200, "OK"},
      Entry{201, "Created"},
      Entry{204, "No Content"},
      Entry{304, "Not Modified"},
      Entry{400, "Bad Request"},
      Entry{401, "Unauthorized"},
      Entry{403, "Forbidden"},
      Entry{404, "Not Found"},
      Entry{405, "Method Not Allowed"},
      Entry{408, "Request Timeout"},
      Entry{409, "Conflict"},
      Entry{413, "Content Too Large"},
      Entry{422, "Unprocessable Content"},
      Entry{429, "Too Many Requests"},
      Entry{431, "Request Header Fields Too Large"},
      Entry{499, "Client Closed Request"},
      Entry{500, "Internal Server Error"},
      Entry{501, "Not Implemented"},
      Entry{502, "Bad Gateway"},
      Entry{503, "Service Unavailable"},
      Entry{504, "Gateway Timeout"},
  };
  for (const Entry& entry : entries) {
    if (entry.status == status) return entry.text;
  }
  return "Status";
}

void append_header(std::string& out, std::string_view name, std::string_view value) {
  out.append(name).append(": ");
  for (char c : value) {
    const bool control = (static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7f;
    out.push_back(control ? ' ' : c);
  }
  out.append("\r\n");
}

std::string http_date() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  // strftime would use the locale's names.
  static constexpr std::array days = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  static constexpr std::array months = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                        "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%s, %02d %s %04d %02d:%02d:%02d GMT",
                days[static_cast<std::size_t>(utc.tm_wday)], utc.tm_mday,
                months[static_cast<std::size_t>(utc.tm_mon)], utc.tm_year + 1900, utc.tm_hour,
                utc.tm_min, utc.tm_sec);
  return text.data();
}

}  // namespace baton::net
