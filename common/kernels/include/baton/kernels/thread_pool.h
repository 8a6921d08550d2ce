// The kernel pool: a fixed team of threads that runs one parallel loop at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

namespace baton::kernels {

class ThreadPool {
 public:
  /// `threads` counts the calling thread; >= 1. Every thread runs with FTZ and DAZ set.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const;

  /// Calls task(i) once for every i in [0, count), on all threads, and returns when all are done.
  /// Called by one thread at a time; tasks do not call run().
  void run(int count, const std::function<void(int)>& task);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace baton::kernels
