#include "baton/tokenizer/jinja/text.h"

#include <algorithm>

namespace baton::tokenizer::jinja {

std::size_t Text::range_after(std::size_t position) const {
  const auto found =
      std::upper_bound(user_ranges_.begin(), user_ranges_.end(), position,
                       [](std::size_t at, const ByteRange& range) { return at < range.end; });
  return static_cast<std::size_t>(found - user_ranges_.begin());
}

Origin Text::origin_at(std::size_t position) const {
  const std::size_t index = range_after(position);
  const bool inside = index < user_ranges_.size() && user_ranges_[index].begin <= position;
  return inside ? Origin::user : Origin::trusted;
}

void Text::mark_user(std::size_t begin, std::size_t end) {
  if (begin == end) return;
  if (!user_ranges_.empty() && user_ranges_.back().end == begin) {
    user_ranges_.back().end = end;
  } else {
    user_ranges_.push_back({begin, end});
  }
}

void Text::append(std::string_view bytes, Origin origin) {
  const std::size_t before = bytes_.size();
  bytes_.append(bytes);
  if (origin == Origin::user) mark_user(before, bytes_.size());
}

void Text::append(const Text& other, std::size_t begin, std::size_t end) {
  const std::size_t before = bytes_.size();
  const std::size_t ranges = other.user_ranges_.size();
  bytes_.append(other.bytes_, begin, end - begin);
  for (std::size_t i = other.range_after(begin); i < ranges; ++i) {
    const ByteRange range = other.user_ranges_[i];
    if (range.begin >= end) break;
    mark_user(before + std::max(range.begin, begin) - begin,
              before + std::min(range.end, end) - begin);
  }
}

Text Text::slice(std::size_t begin, std::size_t end) const {
  Text out;
  out.append(*this, begin, end);
  return out;
}

}  // namespace baton::tokenizer::jinja
