#include "baton/net/sse.h"

#include <utility>

namespace baton::net {
namespace {

constexpr std::string_view line_breaks = "\r\n";

/// For fields that hold one line: line breaks and NUL (which voids an id) are left out.
void append_single_line(std::string& out, std::string_view name, std::string_view value) {
  out.append(name);
  for (char c : value) {
    if (c != '\r' && c != '\n' && c != '\0') out.push_back(c);
  }
  out.push_back('\n');
}

void append_data_lines(std::string& out, std::string_view data) {
  for (;;) {
    const std::size_t end = data.find_first_of(line_breaks);
    out.append("data: ").append(data.substr(0, end)).push_back('\n');
    if (end == std::string_view::npos) return;
    const bool crlf = data.substr(end, 2) == line_breaks;
    data.remove_prefix(end + (crlf ? 2 : 1));
  }
}

}  // namespace

void append_sse(std::string& out, const SseEvent& event) {
  if (!event.event.empty()) append_single_line(out, "event: ", event.event);
  if (!event.id.empty()) append_single_line(out, "id: ", event.id);
  append_sse_data(out, event.data);
}

void append_sse_data(std::string& out, std::string_view data) {
  append_data_lines(out, data);
  out.push_back('\n');
}

void append_sse_keep_alive(std::string& out) { out.append(":\n\n"); }

Result<std::vector<SseEvent>> SseReader::push(std::string_view bytes) {
  std::vector<SseEvent> out;
  while (!bytes.empty()) {
    if (std::exchange(after_cr_, false) && bytes.front() == '\n') {
      bytes.remove_prefix(1);
      continue;
    }
    const std::size_t end = bytes.find_first_of(line_breaks);
    line_.append(bytes.substr(0, end));
    if (line_.size() + current_.data.size() > limit_bytes_) {
      return Error(Reason::protocol_violation, "a server-sent event is longer than the limit");
    }
    if (end == std::string_view::npos) break;
    after_cr_ = bytes[end] == '\r';
    bytes.remove_prefix(end + 1);
    take_line(std::exchange(line_, {}), out);
  }
  return out;
}

void SseReader::take_line(std::string_view line, std::vector<SseEvent>& out) {
  if (line.empty()) {
    if (has_data_) out.push_back(current_);
    has_data_ = false;
    current_.data.clear();
    current_.event.clear();
    return;
  }
  const std::size_t colon = line.find(':');
  const std::string_view name = line.substr(0, colon);
  std::string_view value;
  if (colon != std::string_view::npos) value = line.substr(colon + 1);
  if (!value.empty() && value.front() == ' ') value.remove_prefix(1);
  if (name == "data") {
    if (std::exchange(has_data_, true)) current_.data.push_back('\n');
    current_.data.append(value);
  } else if (name == "id") {
    if (value.find('\0') == std::string_view::npos) current_.id = value;
  } else if (name == "event") {
    current_.event = value;
  }
}

}  // namespace baton::net
