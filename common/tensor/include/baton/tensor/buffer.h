// Owned, aligned host memory.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <span>

namespace baton::tensor {

/// Zeroed host memory aligned to 64 bytes (a cache line and a full vector).
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(std::size_t bytes);

  std::byte* data() { return data_.get(); }
  const std::byte* data() const { return data_.get(); }
  std::size_t size() const { return size_; }
  std::span<std::byte> span() { return {data(), size_}; }
  std::span<const std::byte> span() const { return {data(), size_}; }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::unique_ptr<std::byte, Free> data_;
  std::size_t size_ = 0;
};

}  // namespace baton::tensor
