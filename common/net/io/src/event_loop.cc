#include "baton/net/io/event_loop.h"

#include <algorithm>
#include <utility>

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include "baton/base/check.h"

#include "event_loop_impl.h"

namespace baton::net {

namespace asio = boost::asio;

struct Timer::State {
  explicit State(asio::io_context& context) : timer(context) {}

  asio::steady_timer timer;
  Duration interval = Duration::zero();  ///< zero: once
  std::function<void()> fn;
  bool pending = true;

  static void wait(const std::shared_ptr<State>& self) {
    self->timer.async_wait([self](const boost::system::error_code&) { fire(self); });
  }

  static void fire(const std::shared_ptr<State>& self) {
    // Cancelled after the clock had run out but before this call: the flag says so, not the code.
    if (!self->pending) return;
    const bool once = self->interval == Duration::zero();
    if (once) self->pending = false;
    // The call may cancel or replace its own Timer, so the function does not run in the state.
    std::function<void()> fn = std::exchange(self->fn, nullptr);
    fn();
    if (!self->pending) return;
    self->fn = std::move(fn);
    const auto next = self->timer.expiry() + self->interval;
    self->timer.expires_at(std::max(next, asio::steady_timer::clock_type::now()));
    wait(self);
  }
};

Timer::Timer(std::shared_ptr<State> state) : state_(std::move(state)) {}

Timer& Timer::operator=(Timer&& other) noexcept {
  if (this != &other) {
    cancel();
    state_ = std::move(other.state_);
  }
  return *this;
}

Timer::~Timer() { cancel(); }

void Timer::cancel() {
  if (!state_ || !state_->pending) return;
  state_->pending = false;
  state_->timer.cancel();
  state_->fn = nullptr;
}

bool Timer::pending() const { return state_ && state_->pending; }

EventLoop::EventLoop() : impl_(std::make_unique<Impl>()) {}

EventLoop::~EventLoop() = default;

namespace {

/// Marks the calling thread as the loop's for one scope.
class Running {
 public:
  explicit Running(std::atomic<std::thread::id>& runner) : runner_(runner) {
    std::thread::id nobody;
    BATON_CHECK(runner_.compare_exchange_strong(nobody, std::this_thread::get_id()));
  }
  ~Running() { runner_ = std::thread::id(); }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

 private:
  std::atomic<std::thread::id>& runner_;
};

}  // namespace

void EventLoop::run() {
  const Running running(impl_->runner);
  // Restarting after the run, not before it, so that a stop() that came first is not lost.
  impl_->context.run();
  impl_->context.restart();
}

bool EventLoop::run_one(Duration patience) {
  const Running running(impl_->runner);
  const bool ran = impl_->context.run_one_for(patience) > 0;
  if (impl_->context.stopped()) impl_->context.restart();
  return ran;
}

void EventLoop::stop() { impl_->context.stop(); }

void EventLoop::post(std::function<void()> fn) { asio::post(impl_->context, std::move(fn)); }

Timer EventLoop::schedule_after(Duration delay, std::function<void()> fn) {
  BATON_CHECK(on_loop_thread());
  auto state = std::make_shared<Timer::State>(impl_->context);
  state->fn = std::move(fn);
  state->timer.expires_after(delay);
  Timer::State::wait(state);
  return Timer(std::move(state));
}

Timer EventLoop::schedule_every(Duration interval, std::function<void()> fn) {
  BATON_CHECK(on_loop_thread() && interval > Duration::zero());
  auto state = std::make_shared<Timer::State>(impl_->context);
  state->fn = std::move(fn);
  state->interval = interval;
  state->timer.expires_after(interval);
  Timer::State::wait(state);
  return Timer(std::move(state));
}

bool EventLoop::on_loop_thread() const {
  const std::thread::id runner = impl_->runner;
  return runner == std::thread::id() || runner == std::this_thread::get_id();
}

boost::asio::io_context& EventLoop::context() { return impl_->context; }

}  // namespace baton::net
