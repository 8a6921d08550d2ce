// Where the packed matrices of a model lie: memory of this process, or a file that every process of
// the machine maps.
#pragma once

#include <cstddef>
#include <span>

#include "baton/tensor/buffer.h"

namespace baton::weights {

class PackedMemory {
 public:
  PackedMemory() = default;
  ~PackedMemory();
  PackedMemory(PackedMemory&& other) noexcept;
  PackedMemory& operator=(PackedMemory&& other) noexcept;

  static PackedMemory own(std::size_t bytes);
  /// Takes over a mapping of `mapped` bytes, the first `skipped` of which are not packed weights.
  static PackedMemory mapping(std::byte* at, std::size_t mapped, std::size_t skipped);

  const std::byte* data() const { return mapped_ != nullptr ? mapped_ + skipped_ : own_.data(); }
  std::byte* data() { return mapped_ != nullptr ? mapped_ + skipped_ : own_.data(); }
  std::size_t size() const { return mapped_ != nullptr ? mapped_bytes_ - skipped_ : own_.size(); }
  std::span<const std::byte> span() const { return {data(), size()}; }
  /// Mapped from a file: other processes that map it too share its pages.
  bool shared() const { return mapped_ != nullptr; }
  /// Whoever writes into a mapping from here on ends the process.
  void make_read_only();

 private:
  tensor::Buffer own_;
  std::byte* mapped_ = nullptr;
  std::size_t mapped_bytes_ = 0;
  std::size_t skipped_ = 0;
};

}  // namespace baton::weights
