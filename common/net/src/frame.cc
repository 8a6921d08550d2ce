#include "baton/net/frame.h"

#include <cstdint>

#include <fmt/format.h>

#include "baton/base/check.h"

namespace baton::net {
namespace {

std::size_t read_length(std::string_view header) {
  std::uint32_t length = 0;
  for (std::size_t i = 0; i < frame_header_bytes; ++i) {
    length = (length << 8) | static_cast<std::uint8_t>(header[i]);
  }
  return length;
}

}  // namespace

void append_frame(std::string& out, std::string_view payload) {
  BATON_CHECK(payload.size() <= max_frame_bytes);
  const auto length = static_cast<std::uint32_t>(payload.size());
  for (int shift = 24; shift >= 0; shift -= 8) out.push_back(static_cast<char>(length >> shift));
  out.append(payload);
}

std::string encode_frame(std::string_view payload) {
  std::string out;
  out.reserve(frame_header_bytes + payload.size());
  append_frame(out, payload);
  return out;
}

void FrameDecoder::push(std::string_view bytes) {
  if (taken_ > 0) {
    buffer_.erase(0, taken_);
    taken_ = 0;
  }
  buffer_.append(bytes);
}

Result<std::optional<std::string_view>> FrameDecoder::next() {
  const std::string_view rest = std::string_view(buffer_).substr(taken_);
  if (rest.size() < frame_header_bytes) return std::optional<std::string_view>();
  const std::size_t length = read_length(rest);
  // Nothing is taken from the buffer, so that every later call fails in the same way.
  if (length > limit_bytes_) {
    return Error(
        Reason::protocol_violation,
        fmt::format("a frame of {} bytes was announced, the limit is {}", length, limit_bytes_));
  }
  if (rest.size() - frame_header_bytes < length) return std::optional<std::string_view>();
  taken_ += frame_header_bytes + length;
  return std::optional(rest.substr(frame_header_bytes, length));
}

}  // namespace baton::net
