// Memory that a process of the same machine may map for reading (and never for writing).
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "baton/base/result.h"

namespace baton::tensor {

/// An anonymous memory file, mapped shared and zeroed. It is sealed so that its size is fixed and
/// no new writable mapping can be made: whoever receives the descriptor can only read.
class SharedBuffer {
 public:
  SharedBuffer() = default;
  ~SharedBuffer();
  SharedBuffer(SharedBuffer&& other) noexcept;
  SharedBuffer& operator=(SharedBuffer&& other) noexcept;

  /// `name` shows in /proc/PID/maps only.
  static Result<SharedBuffer> create(const std::string& name, std::size_t bytes);

  int descriptor() const { return descriptor_; }
  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  std::span<std::byte> span() { return {data_, size_}; }

 private:
  int descriptor_ = -1;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace baton::tensor
