// One worker's transport thread with a cache of its own, and what it told its listener.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "baton/handoff/driver.h"

namespace baton::handoff {

inline constexpr int arena_layers = 2;
inline constexpr int block_units = 2;
// More than any test about other things has waiting at a time, peers' messages included.
inline constexpr std::size_t behind_at = 20'000;

struct Patience {
  // Longer than any test waits, unless it is about these deadlines.
  Duration units = std::chrono::minutes(2);
  Duration answer = std::chrono::minutes(2);
};

class DriverSide final : public DriverListener {
 public:
  /// An unstarted one only collects its mail.
  DriverSide(std::unique_ptr<transport::Transport> transport, Epoch epoch, bool started = true,
             const Patience& patience = {})
      : arena_(make_arena()), name_(transport->name()) {
    DriverConfig config;
    config.transports.push_back(std::move(transport));
    config.arena = &arena_;
    config.geometry = {1, arena_.config().unit.unit_bytes(), {{0, {0, 1}}}};
    config.own_epoch = epoch;
    config.behind_at = behind_at;
    config.receiver.units_patience = patience.units;
    config.sender.answer_patience = patience.answer;
    auto made = Driver::create(std::move(config), *this);
    EXPECT_TRUE(made.has_value());
    driver_ = std::move(*made);
    if (started) driver_->start();
  }
  /// Joins the thread before anything that it reports to goes away.
  void stop() { driver_.reset(); }
  ~DriverSide() override { stop(); }

  Driver& driver() { return *driver_; }
  const std::string& transport() const { return name_; }
  void command(EngineCommand each) { driver_->post(std::move(each)); }
  /// Where messages for the pair's other side go.
  void pair_with(std::function<void(LinkId, protocol::Message)> to) {
    std::lock_guard lock(mutex_);
    to_pair_ = std::move(to);
  }

  std::byte* unit(int layer, tensor::KvPart part, std::int32_t block, int index) {
    return arena_.block(0, layer, part, block) +
           static_cast<std::size_t>(index) * arena_.config().unit.unit_bytes();
  }
  std::size_t unit_bytes() const { return arena_.config().unit.unit_bytes(); }

  /// What was reported; read and waited for under the lock.
  struct Seen {
    std::vector<SourceAccepted> accepted;
    std::vector<SourceFailed> failed;
    std::vector<SourceId> idle;
    std::vector<CommitVerified> verified;
    std::vector<std::uint64_t> closed;
    std::vector<std::uint64_t> differ;
    std::vector<LinkId> expected;
    std::vector<LinkId> lost;
    std::vector<Reason> refused_units;
    std::vector<Reason> refused_commits;
    std::uint64_t sent_bytes = 0;
    std::uint64_t received_bytes = 0;
  };
  bool wait_for(const std::function<bool(const Seen&)>& condition) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(30), [&] { return condition(seen_); });
  }
  Seen seen() {
    std::lock_guard lock(mutex_);
    return seen_;
  }

  // DriverListener, on the transport thread.
  void source_accepted(const SourceAccepted& e) override {
    note([&](Seen& s) { s.accepted.push_back(e); });
  }
  void source_failed(const SourceFailed& e) override {
    note([&](Seen& s) { s.failed.push_back(e); });
  }
  void source_idle(SourceId e) override {
    note([&](Seen& s) { s.idle.push_back(e); });
  }
  void commit_verified(const CommitVerified& e) override {
    note([&](Seen& s) { s.verified.push_back(e); });
  }
  void grant_closed(std::uint64_t e) override {
    note([&](Seen& s) { s.closed.push_back(e); });
  }
  void held_units_differ(std::uint64_t e) override {
    note([&](Seen& s) { s.differ.push_back(e); });
  }
  void link_expected(LinkId e) override {
    note([&](Seen& s) { s.expected.push_back(e); });
  }
  void link_lost(LinkId e, const Error&) override {
    note([&](Seen& s) { s.lost.push_back(e); });
  }
  void units_refused(Reason e) override {
    note([&](Seen& s) { s.refused_units.push_back(e); });
  }
  void commit_refused(Reason e) override {
    note([&](Seen& s) { s.refused_commits.push_back(e); });
  }
  void bytes_moved(std::uint64_t sent, std::uint64_t received) override {
    note([&](Seen& s) {
      s.sent_bytes += sent;
      s.received_bytes += received;
    });
  }
  void send_to_pair(LinkId link, protocol::Message message) override {
    std::function<void(LinkId, protocol::Message)> to;
    {
      std::lock_guard lock(mutex_);
      to = to_pair_;
    }
    if (to) to(link, std::move(message));
  }

 private:
  static kvcache::Arena make_arena() {
    kvcache::ArenaConfig config;
    config.unit = {tensor::CacheDtype::f32, 1, 8};
    config.block_units = block_units;
    config.groups = {{arena_layers, 8}};
    auto made = kvcache::Arena::create(config);
    EXPECT_TRUE(made.has_value());
    return std::move(*made);
  }
  template <typename Change>
  void note(Change change) {
    {
      std::lock_guard lock(mutex_);
      change(seen_);
    }
    changed_.notify_all();
  }

  kvcache::Arena arena_;
  std::string name_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Seen seen_;
  std::function<void(LinkId, protocol::Message)> to_pair_;
  std::unique_ptr<Driver> driver_;
};

}  // namespace baton::handoff
