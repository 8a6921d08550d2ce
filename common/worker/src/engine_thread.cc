#include "engine_thread.h"

#include <pthread.h>

#include "baton/base/log.h"

namespace baton::worker {
namespace {

constexpr std::size_t mailbox_capacity = 65'536;
// A step makes a few; so many wait only when the control thread takes none.
constexpr std::size_t most_undelivered = 4096;
constexpr Duration tick_time = std::chrono::milliseconds(20);

}  // namespace

/// The engine's view of the core between layers.
class EngineThread::Watcher final : public engine::StepWatcher {
 public:
  explicit Watcher(EngineThread& thread) : thread_(thread) {}

  void layer_done(int layer) override {
    const Instant now = monotonic_now();
    thread_.mark_progress(now);
    thread_.core_.layer_done(layer, now);
    thread_.drain_mailbox();
    thread_.flush();
  }
  bool cancelled(engine::SequenceId sequence) override { return thread_.core_.cancelled(sequence); }

 private:
  EngineThread& thread_;
};

EngineThread::EngineThread(LoadedModel& model, NodeCore& core, Probe& probe, Outbox outbox)
    : core_(core),
      probe_(probe),
      outbox_(std::move(outbox)),
      pool_(model.pool.get()),
      engine_(*model.model, *model.arena, core.pools(), core.table()),
      mailbox_(mailbox_capacity) {
  mark_progress(monotonic_now());
}

EngineThread::~EngineThread() { stop(); }

void EngineThread::start(handoff::Driver& driver) {
  driver_ = &driver;
  publish();
  thread_ = std::thread([this] { run(); });
}

bool EngineThread::post(EngineMail mail) {
  if (driver_ != nullptr && driver_->is_behind()) return false;
  return mailbox_.size() < mailbox_capacity / 2 && mailbox_.try_push(std::move(mail));
}

void EngineThread::post_event(DriverEvent event) {
  if (mailbox_.try_push(std::move(event)) || mailbox_.closed()) return;
  log_error("the engine's mailbox is full: an event of a handoff is lost");
}

void EngineThread::stop() {
  stop_ = true;
  mailbox_.close();
  if (thread_.joinable()) thread_.join();
}

EngineStatus EngineThread::status() const {
  std::lock_guard lock(status_mutex_);
  return status_;
}

void EngineThread::run() {
  pthread_setname_np(pthread_self(), "baton-engine");
  if (pool_ != nullptr) pool_->pin_caller();
  kernels::set_engine_float_mode();
  while (!stop_) turn();
}

void EngineThread::turn() {
  const Instant now = monotonic_now();
  mark_progress(now);
  drain_mailbox();
  if (now - last_tick_ >= tick_time) {
    last_tick_ = now;
    core_.tick(now);
  }
  const engine::StepPlan plan =
      is_held_back() ? engine::StepPlan() : core_.next_step(monotonic_now());
  flush();
  if (plan.empty()) {
    publish();
    if (auto mail = mailbox_.pop_for(tick_time)) {
      handle(*mail, monotonic_now());
      flush();
    }
    return;
  }
  Watcher watcher(*this);
  const Result<engine::StepEvents> events = engine_.step(plan, &watcher);
  if (!events) log_error("step failed: {}", events.error().message());
  core_.step_done(events, monotonic_now());
  probe_.step_computed(engine_.counters());
  flush();
  publish();
}

void EngineThread::drain_mailbox() {
  std::vector<EngineMail> mails = mailbox_.drain();
  // After the drain: nothing is handled before it arrived, or a request's parts would overlap.
  const Instant now = monotonic_now();
  for (EngineMail& mail : mails) handle(mail, now);
}

void EngineThread::handle(EngineMail& mail, Instant now) {
  if (const auto* message = std::get_if<OwnerMessage>(&mail)) {
    core_.message(message->from, message->message, message->arrived, now);
  } else if (const auto* connected = std::get_if<OwnerConnected>(&mail)) {
    core_.owner_connected(connected->owner, now);
  } else if (const auto* event = std::get_if<DriverEvent>(&mail)) {
    core_.driver_event(*event, now);
  } else if (const auto* inventories = std::get_if<SendInventories>(&mail)) {
    send_inventories(inventories->owners);
  } else if (std::holds_alternative<StartDraining>(mail)) {
    core_.drain();
  }
}

/// An empty one as well: it tells its owner that what it counts on is not here.
void EngineThread::send_inventories(const std::vector<handoff::OwnerRef>& owners) {
  std::vector<std::variant<ToOwner, ToPair>> out;
  for (const handoff::OwnerRef& owner : owners) {
    out.push_back(ToOwner{owner, protocol::Inventory{core_.inventory(owner)}});
  }
  deliver(std::move(out));
}

void EngineThread::flush() {
  // Before a grant of these blocks can be opened: a later poisoning would overwrite what arrived.
  engine_.poison_freed();
  std::vector<std::variant<ToOwner, ToPair>> out;
  for (NodeEffect& effect : core_.take_effects()) {
    if (auto* to_owner = std::get_if<ToOwner>(&effect)) {
      out.push_back(std::move(*to_owner));
    } else if (auto* to_pair = std::get_if<ToPair>(&effect)) {
      out.push_back(std::move(*to_pair));
    } else if (auto* to_driver = std::get_if<ToDriver>(&effect)) {
      driver_->post(std::move(to_driver->command));
    } else if (const auto* counted = std::get_if<Counted>(&effect)) {
      probe_.counted(*counted);
    } else if (const auto* looked_up = std::get_if<PrefixLookedUp>(&effect)) {
      probe_.prefix_looked_up(*looked_up);
    } else if (const auto* prompt = std::get_if<PromptReady>(&effect)) {
      probe_.prompt_ready(*prompt);
    }
  }
  deliver(std::move(out));
}

void EngineThread::deliver(std::vector<std::variant<ToOwner, ToPair>> messages) {
  if (messages.empty()) return;
  ++undelivered_;
  outbox_(std::move(messages));
}

/// Steps bring forth commands and messages without end: none begins while a thread that takes them
/// is far behind. Mail and ticks go on; what they bring forth is bounded by the requests.
bool EngineThread::is_held_back() const {
  return driver_->is_behind() || undelivered_ >= most_undelivered;
}

void EngineThread::publish() {
  EngineStatus status{core_.load(), core_.idle()};
  probe_.load_changed(status.load, core_.pools());
  std::lock_guard lock(status_mutex_);
  status_ = status;
}

}  // namespace baton::worker
