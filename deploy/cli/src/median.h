// The middle of what was measured.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace baton::cli {

/// The upper one of the two in the middle; a zero when there is nothing.
template <typename Value>
Value median(std::vector<Value> values) {
  if (values.empty()) return Value{};
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace baton::cli
