// Server-sent events: the writer that the API streams with, and the reader of the command-line
// client. Sans-io.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "baton/base/result.h"

namespace baton::net {

struct SseEvent {
  std::string data;
  std::string id;     ///< empty: no id field
  std::string event;  ///< empty: no event field, i.e. type "message"

  friend bool operator==(const SseEvent&, const SseEvent&) = default;
};

/// Appends one event. Every line break in the data (CR, LF, CRLF) starts a new `data:` line, so the
/// reader gets a LF in its place; line breaks and NUL are removed from id and event name: nothing
/// in a value can start a field of its own.
void append_sse(std::string& out, const SseEvent& event);

/// `data: …` alone, the common case, without building an SseEvent.
void append_sse_data(std::string& out, std::string_view data);

/// A comment line that keeps proxies from closing a quiet stream: ":\n\n".
void append_sse_keep_alive(std::string& out);

/// Cuts a byte stream into events, however the bytes were split on their way. As in the standard:
/// comments and unknown fields are skipped, an event without data is dropped, the id carries over
/// to later events that name none.
class SseReader {
 public:
  explicit SseReader(std::size_t limit_bytes = 4 * 1024 * 1024) : limit_bytes_(limit_bytes) {}

  /// The events completed by these bytes. Reason::protocol_violation when one event is longer than
  /// the limit.
  Result<std::vector<SseEvent>> push(std::string_view bytes);

 private:
  void take_line(std::string_view line, std::vector<SseEvent>& out);

  std::string line_;       ///< start of a line whose end has not come yet
  bool after_cr_ = false;  ///< the last byte was a CR: a LF that follows belongs to it
  bool has_data_ = false;  ///< the event being read has at least one data field
  SseEvent current_;
  const std::size_t limit_bytes_;
};

}  // namespace baton::net
