// Owner of a file descriptor, and how long to sleep on one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <utility>

#include <unistd.h>

#include "baton/base/time.h"

namespace baton::transport {

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int value) : value_(value) {}
  ~Descriptor() {
    if (value_ >= 0) close(value_);
  }
  Descriptor(Descriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }

  int get() const { return value_; }
  explicit operator bool() const { return value_ >= 0; }

 private:
  int value_ = -1;
};

/// For ppoll; a negative duration is none.
inline timespec to_timespec(Duration duration) {
  const std::int64_t count = std::max<std::int64_t>(duration.count(), 0);
  return {static_cast<time_t>(count / 1'000'000'000), static_cast<long>(count % 1'000'000'000)};
}

}  // namespace baton::transport
