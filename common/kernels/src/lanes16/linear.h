// Linear layers of the class: brings the input into the form that the weights want and cuts the
// product into tasks. No arithmetic with an order is done here.
#pragma once

#include "baton/tensor/buffer.h"

#include "lanes16/ops.h"

namespace baton::kernels {

/// Memory that only grows.
class Workspace {
 public:
  std::byte* get(std::size_t bytes) {
    if (bytes > buffer_.size()) buffer_ = tensor::Buffer(bytes * 5 / 4);
    return buffer_.data();
  }

 private:
  tensor::Buffer buffer_;
};

class LinearDriver {
 public:
  LinearDriver(const Lanes16Ops& ops, ThreadPool& pool) : ops_(ops), pool_(pool) {}

  void run(const PackedMatrix& weight, std::span<const float> bias, ConstRows x, Rows y);

 private:
  Activations prepare(const PanelShape& shape, ConstRows x);
  void split(const LinearTask& all);

  const Lanes16Ops& ops_;
  ThreadPool& pool_;
  Workspace values_;
};

}  // namespace baton::kernels
