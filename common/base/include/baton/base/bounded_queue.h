// A bounded queue between threads. Producers never block: a full queue is the producer's to handle
// (a full outbox fails its link). Consumers wait with a deadline.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "baton/base/time.h"

namespace baton {

template <typename T>
class BoundedQueue {
 public:
  explicit BoundedQueue(std::size_t capacity) : capacity_(capacity) {}

  /// False, and nothing taken, when the queue is full or closed.
  [[nodiscard]] bool try_push(T item) {
    {
      std::lock_guard lock(mutex_);
      if (closed_ || items_.size() >= capacity_) return false;
      items_.push_back(std::move(item));
    }
    ready_.notify_one();
    return true;
  }

  std::optional<T> try_pop() {
    std::lock_guard lock(mutex_);
    return pop_locked();
  }

  /// Waits up to `patience` for an item; nothing when none came or the queue was closed and
  /// emptied.
  std::optional<T> pop_for(Duration patience) {
    std::unique_lock lock(mutex_);
    ready_.wait_for(lock, patience, [this] { return closed_ || !items_.empty(); });
    return pop_locked();
  }

  /// Everything queued now, oldest first, without waiting.
  std::vector<T> drain() {
    std::lock_guard lock(mutex_);
    std::vector<T> out(std::make_move_iterator(items_.begin()),
                       std::make_move_iterator(items_.end()));
    items_.clear();
    return out;
  }

  /// No item is accepted any more; waiting consumers wake up.
  void close() {
    {
      std::lock_guard lock(mutex_);
      closed_ = true;
    }
    ready_.notify_all();
  }

  bool closed() const {
    std::lock_guard lock(mutex_);
    return closed_;
  }

  std::size_t size() const {
    std::lock_guard lock(mutex_);
    return items_.size();
  }

 private:
  std::optional<T> pop_locked() {
    if (items_.empty()) return std::nullopt;
    std::optional<T> out(std::move(items_.front()));
    items_.pop_front();
    return out;
  }

  mutable std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<T> items_;
  const std::size_t capacity_;
  bool closed_ = false;
};

}  // namespace baton
