#include "baton/kernels/thread_pool.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <pthread.h>

#include "baton/base/check.h"
#include "baton/base/time.h"
#include "baton/kernels/kernels.h"

#include "float_mode.h"

namespace baton::kernels {
namespace {

// How long a thread looks for what it waits for before it parks. Longer than the gap between two
// operations of a step, so that no step pays for waking; far shorter than the gap between two steps
// of an idle node, so that a neighbour on the same processor gets it. By the clock: a pause takes
// between 10 and 140 cycles, by processor.
constexpr Duration spin_time = std::chrono::microseconds(50);
constexpr int pauses_between_clock_readings = 16;

constexpr std::uint64_t generation_step = std::uint64_t{1} << 32;

int remaining(std::uint64_t ticket) { return static_cast<int>(ticket & 0xffffffffU); }
std::uint64_t generation(std::uint64_t ticket) { return ticket >> 32; }

/// Whether `done` came true within spin_time.
template <typename Condition>
bool spin(const Condition& done) {
  Instant give_up;
  for (int i = 0; !done(); ++i) {
    _mm_pause();
    if (i % pauses_between_clock_readings != 0) continue;
    const Instant now = monotonic_now();
    if (i == 0) give_up = now + spin_time;
    if (now >= give_up) return false;
  }
  return true;
}

/// Waits of few threads for a condition that others make true and then announce: a brief spin, then
/// parked. Whoever makes it true pays nothing while nobody is parked.
class Parking {
 public:
  template <typename Condition>
  void wait(const Condition& done) {
    if (spin(done)) return;
    std::unique_lock lock(mutex_);
    // Counted before the last look at the condition, and announce() looks the other way round, both
    // in the one order of sequential consistency: one of the two sees the other.
    parked_.fetch_add(1);
    wake_.wait(lock, done);
    parked_.fetch_sub(1);
  }

  void announce() {
    if (parked_.load() == 0) return;
    const std::lock_guard lock(mutex_);
    wake_.notify_all();
  }

 private:
  std::atomic<int> parked_{0};
  std::mutex mutex_;
  std::condition_variable wake_;
};

/// A processor that went offline meanwhile leaves the thread where it may run: advice, no more.
void pin(pthread_t thread, int processor) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<std::size_t>(processor), &set);
  pthread_setaffinity_np(thread, sizeof set, &set);
}

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
  alignas(64) std::atomic<bool> stopping{false};
  Parking workers_wait;
  Parking caller_waits;
  std::vector<int> processors;
  std::vector<std::thread> workers;

  /// Runs tasks until none is left to take.
  void take_tasks() {
    std::uint64_t seen = ticket.load(std::memory_order_acquire);
    while (remaining(seen) > 0) {
      const Task work = task.load(std::memory_order_relaxed);
      const int total = count.load(std::memory_order_relaxed);
      if (!ticket.compare_exchange_weak(seen, seen - 1, std::memory_order_acq_rel)) continue;
      (*work)(total - remaining(seen));
      if (done.fetch_add(1) + 1 == total) caller_waits.announce();
      seen = ticket.load(std::memory_order_acquire);
    }
  }

  /// False when the system has no more threads to give.
  bool add_worker() {
    try {
      workers.emplace_back([this] { work(); });
      return true;
    } catch (const std::system_error&) {
      return false;
    }
  }

  void work() {
    set_engine_float_mode();
    std::uint64_t known = 0;
    while (true) {
      workers_wait.wait([&] { return generation(ticket.load()) != known || stopping.load(); });
      if (stopping.load()) return;
      known = generation(ticket.load());
      take_tasks();
    }
  }
};

ThreadPool::ThreadPool(int threads, std::vector<int> processors)
    : state_(std::make_unique<State>()) {
  BATON_CHECK(threads >= 1);
  BATON_CHECK(processors.empty() || std::ssize(processors) == threads);
  State* state = state_.get();
  state->processors = std::move(processors);
  for (int i = 1; i < threads && state->add_worker(); ++i) {
    std::thread& worker = state->workers.back();
    pthread_setname_np(worker.native_handle(), "baton-kernel");
    if (pinned()) pin(worker.native_handle(), state->processors[static_cast<std::size_t>(i)]);
  }
}

ThreadPool::~ThreadPool() {
  state_->stopping.store(true);
  state_->workers_wait.announce();
  for (std::thread& worker : state_->workers) worker.join();
}

int ThreadPool::threads() const { return static_cast<int>(state_->workers.size()) + 1; }

bool ThreadPool::pinned() const { return !state_->processors.empty(); }

void ThreadPool::pin_caller() const {
  if (pinned()) pin(pthread_self(), state_->processors.front());
}

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
  s.workers_wait.announce();
  s.take_tasks();
  s.caller_waits.wait([&] { return s.done.load() == count; });
}

}  // namespace baton::kernels
