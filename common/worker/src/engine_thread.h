// The engine thread: one core, one engine, one step after the other. It drains its mailbox between
// steps and between the layers of a step.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <variant>
#include <vector>

#include "baton/base/bounded_queue.h"
#include "baton/engine/engine.h"
#include "baton/handoff/driver.h"
#include "baton/worker/core/node_core.h"

#include "loaded_model.h"
#include "probe.h"

namespace baton::worker {

// Mail.
struct OwnerMessage {
  handoff::OwnerRef from;
  protocol::Message message;
  Instant arrived;
};
struct OwnerConnected {
  handoff::OwnerRef owner;
};
/// What the core holds for each of these is told to them.
struct SendInventories {
  std::vector<handoff::OwnerRef> owners;
};
struct StartDraining {};
using EngineMail =
    std::variant<OwnerMessage, OwnerConnected, DriverEvent, SendInventories, StartDraining>;

/// What other threads may read at any time.
struct EngineStatus {
  protocol::Load load;
  bool idle = true;
};

class EngineThread {
 public:
  /// Messages for routers and pair peers, in order. Called on the engine thread; delivered() says
  /// that those of one call have been passed on.
  using Outbox = std::function<void(std::vector<std::variant<ToOwner, ToPair>>)>;

  /// All references outlive the thread.
  EngineThread(LoadedModel& model, NodeCore& core, Probe& probe, Outbox outbox);
  ~EngineThread();

  /// `driver` is set before the thread starts and outlives it.
  void start(handoff::Driver& driver);
  void stop();

  /// Any thread.
  void delivered() { --undelivered_; }

  /// False when the mailbox is half full or the driver is behind: the caller fails the link that
  /// the message came from.
  [[nodiscard]] bool post(EngineMail mail);
  /// The other half is for what the driver says: losing an end would lose the blocks that wait for
  /// it. After stop() nobody cares.
  void post_event(DriverEvent event);

  EngineStatus status() const;
  /// When the loop or a layer last made progress; for liveness.
  Instant last_progress() const { return Instant(Duration(progress_.load())); }

 private:
  class Watcher;

  void run();
  void turn();
  void drain_mailbox();
  void handle(EngineMail& mail, Instant now);
  void send_inventories(const std::vector<handoff::OwnerRef>& owners);
  void flush();
  void deliver(std::vector<std::variant<ToOwner, ToPair>> messages);
  bool is_held_back() const;
  void publish();
  void mark_progress(Instant now) { progress_ = now.time_since_epoch().count(); }

  NodeCore& core_;
  Probe& probe_;
  Outbox outbox_;
  const kernels::ThreadPool* pool_;  ///< null in tests without kernels
  engine::Engine engine_;
  handoff::Driver* driver_ = nullptr;
  BoundedQueue<EngineMail> mailbox_;
  Instant last_tick_;
  std::atomic<std::int64_t> progress_ = 0;
  std::atomic<std::size_t> undelivered_ = 0;  ///< calls of the outbox
  std::atomic<bool> stop_ = false;
  mutable std::mutex status_mutex_;
  EngineStatus status_;
  std::thread thread_;
};

}  // namespace baton::worker
