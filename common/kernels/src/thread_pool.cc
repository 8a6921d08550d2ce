#include "baton/kernels/thread_pool.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "baton/base/check.h"
#include "baton/kernels/kernels.h"

#include "float_mode.h"

namespace baton::kernels {
namespace {

// Some tens of microseconds: longer than the gap between two operations of a step, much shorter
// than the gap between two steps of an idle node.
constexpr int spins_before_parking = 2000;
constexpr int spins_before_yielding = 20000;

constexpr std::uint64_t generation_step = std::uint64_t{1} << 32;

int remaining(std::uint64_t ticket) { return static_cast<int>(ticket & 0xffffffffU); }
std::uint64_t generation(std::uint64_t ticket) { return ticket >> 32; }

}  // namespace

struct ThreadPool::State {
  using Task = const std::function<void(int)>*;

  // (generation, tasks not yet taken). A task is taken by compare-and-swap, which fails once the
  // generation is over: a late worker can never run a task of another loop. `task` and `count` are
  // written only while nothing remains, so what a successful swap has read belongs to it.
  alignas(64) std::atomic<std::uint64_t> ticket{0};
  std::atomic<Task> task{nullptr};
  std::atomic<int> count{0};
  alignas(64) std::atomic<int> done{0};
  alignas(64) std::atomic<int> sleepers{0};
  std::atomic<bool> stopping{false};
  std::mutex mutex;
  std::condition_variable wake;
  std::vector<std::thread> workers;

  void take_tasks() {
    std::uint64_t seen = ticket.load(std::memory_order_acquire);
    while (remaining(seen) > 0) {
      const Task work = task.load(std::memory_order_relaxed);
      const int total = count.load(std::memory_order_relaxed);
      if (!ticket.compare_exchange_weak(seen, seen - 1, std::memory_order_acq_rel)) continue;
      (*work)(total - remaining(seen));
      done.fetch_add(1, std::memory_order_release);
      seen = ticket.load(std::memory_order_acquire);
    }
  }

  /// Returns when the generation differs from `known` or the pool stops.
  void wait_for_work(std::uint64_t known) {
    const auto idle = [&] { return generation(ticket.load()) == known && !stopping.load(); };
    for (int i = 0; i < spins_before_parking; ++i) {
      if (!idle()) return;
      _mm_pause();
    }
    std::unique_lock lock(mutex);
    sleepers.fetch_add(1);
    wake.wait(lock, [&] { return !idle(); });
    sleepers.fetch_sub(1);
  }

  void work() {
    set_engine_float_mode();
    std::uint64_t known = 0;
    while (true) {
      wait_for_work(known);
      if (stopping.load()) return;
      known = generation(ticket.load());
      take_tasks();
    }
  }

  void wake_sleepers() {
    if (sleepers.load() == 0) return;
    const std::lock_guard lock(mutex);
    wake.notify_all();
  }
};

ThreadPool::ThreadPool(int threads) : state_(std::make_unique<State>()) {
  BATON_CHECK(threads >= 1);
  State* state = state_.get();
  for (int i = 1; i < threads; ++i) state->workers.emplace_back([state] { state->work(); });
}

ThreadPool::~ThreadPool() {
  state_->stopping.store(true);
  {
    const std::lock_guard lock(state_->mutex);
    state_->wake.notify_all();
  }
  for (std::thread& worker : state_->workers) worker.join();
}

int ThreadPool::threads() const { return static_cast<int>(state_->workers.size()) + 1; }

void ThreadPool::run(int count, const std::function<void(int)>& task) {
  if (count <= 0) return;
  const FloatModeScope mode;
  State& s = *state_;
  if (count == 1 || s.workers.empty()) {
    for (int i = 0; i < count; ++i) task(i);
    return;
  }
  s.done.store(0, std::memory_order_relaxed);
  s.task.store(&task, std::memory_order_relaxed);
  s.count.store(count, std::memory_order_relaxed);
  const std::uint64_t next = generation(s.ticket.load(std::memory_order_relaxed)) + 1;
  s.ticket.store(next * generation_step + static_cast<std::uint64_t>(count));
  s.wake_sleepers();
  s.take_tasks();
  for (int spins = 0; s.done.load(std::memory_order_acquire) != count; ++spins) {
    if (spins < spins_before_yielding) {
      _mm_pause();
    } else {
      std::this_thread::yield();
    }
  }
}

}  // namespace baton::kernels
