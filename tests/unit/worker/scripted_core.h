// A node core that decides nothing: it notes what it is told, and a test says what comes of it.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "baton/worker/core/node_core.h"

namespace baton::worker {

class ScriptedCore final : public NodeCore {
 public:
  /// Called on the engine thread with every note, before it can be seen: makes effects and plans.
  std::function<void(const std::string& note)> on_note;
  std::vector<NodeEffect> effects;
  engine::StepPlan plan;  ///< of the next step alone
  std::map<handoff::OwnerRef, std::vector<protocol::AttemptKey>> held;
  protocol::Load load_now;
  bool idle_now = true;

  explicit ScriptedCore(kvcache::PoolConfig pools) : pools_(std::move(pools)) {}

  // For the test's thread.
  std::vector<std::string> notes() const {
    std::lock_guard lock(mutex_);
    return notes_;
  }
  /// Waits for so many notes that begin with these words.
  bool wait_for(const std::string& words, std::size_t count = 1) const {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(20),
                             [&] { return count_of(words) >= count; });
  }
  /// Waits until the thread has gone through a whole turn from now on.
  bool wait_turn() const {
    std::unique_lock lock(mutex_);
    const std::size_t ticks = count_of("tick");
    return changed_.wait_for(lock, std::chrono::seconds(20),
                             [&] { return count_of("tick") >= ticks + 2; });
  }

  void message(const handoff::OwnerRef& from, const protocol::Message& message, Instant,
               Instant) override {
    note(std::string(protocol::name(message)) + " of " + text_of(from));
  }
  void owner_connected(const handoff::OwnerRef& owner, Instant) override {
    note("connected " + text_of(owner));
  }
  void driver_event(const DriverEvent&, Instant) override { note("driver event"); }
  engine::StepPlan next_step(Instant) override { return std::exchange(plan, {}); }
  void layer_done(int layer, Instant) override { note("layer " + std::to_string(layer)); }
  bool cancelled(engine::SequenceId) override { return false; }
  void step_done(const Result<engine::StepEvents>& events, Instant) override {
    note(events ? "step done" : "step failed");
  }
  void tick(Instant) override { note("tick"); }
  void drain() override { note("drain"); }
  bool idle() const override { return idle_now; }
  std::vector<NodeEffect> take_effects() override { return std::exchange(effects, {}); }
  protocol::Load load() const override { return load_now; }
  std::vector<protocol::AttemptKey> inventory(const handoff::OwnerRef& owner) const override {
    note("inventory of " + text_of(owner));
    const auto found = held.find(owner);
    return found == held.end() ? std::vector<protocol::AttemptKey>{} : found->second;
  }
  kvcache::BlockPools& pools() override { return pools_; }
  const kvcache::BlockPools& pools() const override { return pools_; }
  engine::SequenceTable& table() override { return table_; }

 private:
  static std::string text_of(const handoff::OwnerRef& owner) {
    return owner.node.value() + "/" + std::to_string(owner.epoch.value());
  }
  std::size_t count_of(const std::string& words) const {
    std::size_t count = 0;
    for (const std::string& each : notes_) count += each.starts_with(words) ? 1 : 0;
    return count;
  }
  void note(const std::string& text) const {
    if (on_note) on_note(text);
    {
      std::lock_guard lock(mutex_);
      notes_.push_back(text);
    }
    changed_.notify_all();
  }

  kvcache::BlockPools pools_;
  engine::SequenceTable table_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  mutable std::vector<std::string> notes_;
};

}  // namespace baton::worker
