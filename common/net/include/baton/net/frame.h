// Frames of the control plane: a 4-byte big-endian payload length, then the payload. Sans-io: bytes
// in, frames out, no socket. Non-goals: what the payload means, who may send it.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "baton/base/result.h"

namespace baton::net {

/// Largest payload of a control frame (security rule R7).
constexpr std::size_t max_frame_bytes = 1024 * 1024;
constexpr std::size_t frame_header_bytes = 4;

/// Appends one frame to `out`. The payload must not be longer than max_frame_bytes: that is a bug
/// of the sender, who has to split what can grow.
void append_frame(std::string& out, std::string_view payload);

/// One frame as bytes; the same rule.
std::string encode_frame(std::string_view payload);

/// Cuts a byte stream into frames, however the bytes were split on their way.
///
///     decoder.push(bytes);
///     for (;;) {
///       BATON_ASSIGN(const auto frame, decoder.next());
///       if (!frame) break;
///       handle(*frame);
///     }
///
/// Frames that came before a bad one are still handed out; after an error the decoder stays failed,
/// for the stream has lost its framing. Memory held is what was pushed and not yet taken: an
/// announced length allocates nothing.
class FrameDecoder {
 public:
  explicit FrameDecoder(std::size_t limit_bytes = max_frame_bytes) : limit_bytes_(limit_bytes) {}

  void push(std::string_view bytes);

  /// The payload of the next whole frame (a view valid until the next push), nothing when bytes are
  /// missing, Reason::protocol_violation when its announced length is above the limit.
  Result<std::optional<std::string_view>> next();

  /// Bytes held that belong to no frame handed out yet.
  std::size_t pending_bytes() const { return buffer_.size() - taken_; }

 private:
  std::string buffer_;
  std::size_t taken_ = 0;  ///< bytes of buffer_ already handed out
  const std::size_t limit_bytes_;
};

}  // namespace baton::net
