// Reads little-endian values from a span, front to back; never past its end.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>

namespace baton::modelfile {

static_assert(std::endian::native == std::endian::little, "values are read as they lie");

class Cursor {
 public:
  explicit Cursor(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::size_t position() const { return position_; }
  std::size_t remaining() const { return bytes_.size() - position_; }

  /// Each of these gives nothing, and moves nowhere, when the bytes end before the value does.
  template <typename T>
  std::optional<T> value() {
    if (remaining() < sizeof(T)) return std::nullopt;
    T out;
    std::memcpy(&out, bytes_.data() + position_, sizeof(T));
    position_ += sizeof(T);
    return out;
  }

  std::optional<std::span<const std::byte>> take(std::uint64_t size_bytes) {
    if (remaining() < size_bytes) return std::nullopt;
    const auto out = bytes_.subspan(position_, size_bytes);
    position_ += size_bytes;
    return out;
  }

  /// A string behind its 64-bit length.
  std::optional<std::string_view> string() {
    const std::size_t start = position_;
    if (const auto length = value<std::uint64_t>()) {
      if (const auto chars = take(*length)) {
        return std::string_view(reinterpret_cast<const char*>(chars->data()), chars->size());
      }
    }
    position_ = start;
    return std::nullopt;
  }

 private:
  std::span<const std::byte> bytes_;
  std::size_t position_ = 0;
};

}  // namespace baton::modelfile
