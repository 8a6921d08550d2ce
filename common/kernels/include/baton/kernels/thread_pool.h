// The kernel pool: a fixed team of threads that runs one parallel loop at a time, each on a
// processor of its own where that is asked for.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace baton::kernels {

class ThreadPool {
 public:
  /// `threads` counts the calling thread; >= 1. Every thread runs with FTZ and DAZ set.
  /// `processors`: one a thread, the caller's first; empty: the system places them. Where the
  /// system has no more threads to give, the pool has fewer: see threads().
  explicit ThreadPool(int threads, std::vector<int> processors = {});
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const;
  bool pinned() const;

  /// Pins the calling thread, the one that will call run(), to the first processor, and with it the
  /// threads that it starts from then on. Nothing in a pool without processors.
  void pin_caller() const;

  /// Calls task(i) once for every i in [0, count), on all threads, and returns when all are done.
  /// Called by one thread at a time; tasks do not call run().
  void run(int count, const std::function<void(int)>& task);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace baton::kernels
