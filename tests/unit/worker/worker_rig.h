// What a worker is made of, around a model without weights: a cache, a scripted core, an engine
// thread and a driver.
#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "baton/engine/cache_shape.h"
#include "baton/handoff/driver.h"
#include "baton/transport/factory/factory.h"

#include "engine_thread.h"
#include "loaded_model.h"
#include "probe.h"
#include "scripted_core.h"
#include "support/engine/fake_model.h"

namespace baton::worker {

/// Listens to a driver and does nothing.
class Deaf : public handoff::DriverListener {
 public:
  void source_accepted(const handoff::SourceAccepted&) override {}
  void source_failed(const handoff::SourceFailed&) override {}
  void source_idle(handoff::SourceId) override {}
  void commit_verified(const handoff::CommitVerified&) override {}
  void grant_closed(std::uint64_t) override {}
  void held_units_differ(std::uint64_t) override {}
  void send_to_pair(handoff::LinkId, protocol::Message) override {}
  void link_expected(handoff::LinkId) override {}
  void link_lost(handoff::LinkId, const Error&) override {}
  void units_refused(Reason) override {}
  void commit_refused(Reason) override {}
  void bytes_moved(std::uint64_t, std::uint64_t) override {}
};

/// Value of the first series whose line holds all of these words; -1 when there is none.
inline double value_of(const std::string& exposed, const std::vector<std::string>& words) {
  std::size_t at = 0;
  while (at < exposed.size()) {
    const std::size_t end = exposed.find('\n', at);
    const std::string line = exposed.substr(at, end - at);
    at = end + 1;
    const bool all = std::all_of(words.begin(), words.end(), [&](const std::string& word) {
      return line.find(word) != std::string::npos;
    });
    if (!line.starts_with("#") && all) return std::stod(line.substr(line.rfind(' ')));
  }
  return -1;
}

/// Engine thread and driver are not started: what is posted to them waits.
class WorkerRig {
 public:
  explicit WorkerRig(protocol::Role role) : role_(role) {
    test::FakeModelOptions options;
    options.windows = {0};
    auto fake = std::make_unique<test::FakeModel>(options);
    const kvcache::ArenaConfig cache =
        engine::arena_config(fake->config(), {.positions = 128, .block_units = 1});
    model.arena = std::make_unique<kvcache::Arena>(kvcache::Arena::create(cache).value());
    model.pools = engine::pool_config(fake->config(), cache, true);
    model.model = std::move(fake);
    core = std::make_unique<ScriptedCore>(model.pools);
    engine = std::make_unique<EngineThread>(model, *core, probe, [this](auto effects) {
      std::lock_guard lock(mutex_);
      for (auto& effect : effects) sent_.push_back(std::move(effect));
      if (on_sent) on_sent();
      if (delivers) engine->delivered();
    });
  }
  ~WorkerRig() { stop(); }
  WorkerRig(const WorkerRig&) = delete;
  WorkerRig& operator=(const WorkerRig&) = delete;

  /// In the order of a worker's end.
  void stop() {
    engine->stop();
    driver.reset();
  }

  void make_driver(handoff::DriverListener& listener,
                   const std::vector<std::string>& transports = {"loopback"}) {
    handoff::DriverConfig config;
    for (const std::string& name : transports) {
      config.transports.push_back(transport::make_transport(name, {}).value());
    }
    config.arena = model.arena.get();
    config.geometry = {0, model.arena->config().unit.unit_bytes(), {{0, {0, 1}}}};
    config.own_epoch = Epoch(50);
    config.behind_at = 20'000;  // more than the messages of peers that may wait
    driver = handoff::Driver::create(std::move(config), listener).value();
  }

  /// Everything that the engine thread sent to owners and pairs, in order.
  std::vector<std::variant<ToOwner, ToPair>> sent() const {
    std::lock_guard lock(mutex_);
    return sent_;
  }
  double metric(const std::vector<std::string>& words) const {
    return value_of(registry.expose(), words);
  }

  std::function<void()> on_sent;  ///< on the engine thread
  std::atomic<bool> delivers = true;

  protocol::Role role_;
  metrics::Registry registry{"worker", "w0"};
  Probe probe{registry, role_};
  LoadedModel model;
  std::unique_ptr<ScriptedCore> core;
  std::unique_ptr<EngineThread> engine;
  std::unique_ptr<handoff::Driver> driver;

 private:
  mutable std::mutex mutex_;
  std::vector<std::variant<ToOwner, ToPair>> sent_;
};

}  // namespace baton::worker
