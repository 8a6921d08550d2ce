// Text that knows where it came from. A chat prompt is made of the template's own words, in which
// special tokens are parsed, and of what users wrote, in which they are data (R17, SEC-14). Every
// string operation of the interpreter keeps the origin of each byte that survives it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace baton::tokenizer::jinja {

enum class Origin : std::uint8_t { trusted, user };

/// Bytes [begin, end).
struct ByteRange {
  std::size_t begin = 0;
  std::size_t end = 0;

  friend bool operator==(const ByteRange&, const ByteRange&) = default;
};

/// UTF-8 bytes with the ranges that users wrote. Positions are byte offsets.
class Text {
 public:
  Text() = default;
  explicit Text(std::string bytes, Origin origin = Origin::trusted) : bytes_(std::move(bytes)) {
    if (origin == Origin::user && !bytes_.empty()) user_ranges_.push_back({0, bytes_.size()});
  }

  const std::string& bytes() const { return bytes_; }
  std::string_view view() const { return bytes_; }
  std::size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }

  /// Ascending, disjoint, not touching each other, none empty.
  std::span<const ByteRange> user_ranges() const { return user_ranges_; }
  bool has_user_data() const { return !user_ranges_.empty(); }
  Origin origin_at(std::size_t position) const;

  void append(std::string_view bytes, Origin origin = Origin::trusted);
  void append(const Text& other) { append(other, 0, other.size()); }
  /// The bytes [begin, end) of another text with their origins; begin ≤ end ≤ other.size().
  void append(const Text& other, std::size_t begin, std::size_t end);
  Text slice(std::size_t begin, std::size_t end) const;

 private:
  void mark_user(std::size_t begin, std::size_t end);
  // First range that ends behind `position`.
  std::size_t range_after(std::size_t position) const;

  std::string bytes_;
  std::vector<ByteRange> user_ranges_;
};

}  // namespace baton::tokenizer::jinja
