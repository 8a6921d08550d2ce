// Strong types for ids, counts and sizes: two of them never mix by accident.
#pragma once

#include <compare>
#include <cstddef>
#include <functional>
#include <utility>

namespace baton {

/// A value of type T under a name of its own. Tag is any type, usually declared in place.
template <typename T, typename Tag>
class Strong {
 public:
  constexpr Strong() = default;
  constexpr explicit Strong(T value) : value_(std::move(value)) {}

  constexpr const T& value() const { return value_; }

  friend constexpr auto operator<=>(const Strong&, const Strong&) = default;
  friend constexpr bool operator==(const Strong&, const Strong&) = default;

 private:
  T value_{};
};

}  // namespace baton

template <typename T, typename Tag>
struct std::hash<baton::Strong<T, Tag>> {
  std::size_t operator()(const baton::Strong<T, Tag>& strong) const noexcept {
    return std::hash<T>{}(strong.value());
  }
};
