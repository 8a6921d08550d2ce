// The engine thread around a scripted core: what reaches the core, in which order, and what becomes
// of its effects.
#include <algorithm>

#include "worker_rig.h"

namespace baton::worker {
namespace {

using handoff::OwnerRef;
using testing::ElementsAre;
using testing::IsEmpty;

const OwnerRef first{NodeId("r"), Epoch(1)};
const OwnerRef second{NodeId("s"), Epoch(2)};
const protocol::AttemptKey key{{1, 1}, {1, 1}};

class EngineThreadTest : public testing::Test {
 protected:
  EngineThreadTest() { rig.make_driver(deaf); }
  ~EngineThreadTest() override { rig.stop(); }

  void start() { rig.engine->start(*rig.driver); }
  void post(EngineMail mail) { EXPECT_TRUE(rig.engine->post(std::move(mail))); }
  /// The notes without ticks.
  std::vector<std::string> heard() const {
    std::vector<std::string> out = rig.core->notes();
    std::erase(out, "tick");
    return out;
  }
  /// Who was sent an inventory, in order.
  std::vector<OwnerRef> inventories() const {
    std::vector<OwnerRef> out;
    for (const auto& each : rig.sent()) {
      const auto* to = std::get_if<ToOwner>(&each);
      if (to != nullptr && std::holds_alternative<protocol::Inventory>(to->message)) {
        out.push_back(to->owner);
      }
    }
    return out;
  }
  /// A prompt of three tokens, planned as one chunk.
  engine::StepPlan plan_of_a_prompt() {
    engine::SequenceSpec spec;
    spec.prompt = {1, 2, 3};
    spec.params.max_tokens = 4;
    auto made = engine::Sequence::for_prefill(std::move(spec), {101, 1000});
    const engine::SequenceId id = rig.core->table().add(std::move(made.value()));
    return {.prefill = {{id, 0, 3}}};
  }

  Deaf deaf;
  WorkerRig rig{protocol::Role::decode};
};

TEST_F(EngineThreadTest, MailReachesTheCoreInTheOrderOfPosting) {
  post(OwnerConnected{first});
  post(OwnerMessage{first, protocol::Cancel{key}, monotonic_now()});
  rig.engine->post_event(handoff::GrantClosed{4});
  post(OwnerMessage{second, protocol::Release{key}, monotonic_now()});
  post(StartDraining{});
  start();
  ASSERT_TRUE(rig.core->wait_for("drain"));
  EXPECT_THAT(heard(), ElementsAre("connected r/1", "cancel of r/1", "driver event",
                                   "release of s/2", "drain"));
}

TEST_F(EngineThreadTest, MailWakesAThreadThatHasNothingToDo) {
  start();
  ASSERT_TRUE(rig.core->wait_for("tick"));
  post(OwnerConnected{first});
  EXPECT_TRUE(rig.core->wait_for("connected"));
}

TEST_F(EngineThreadTest, HalfOfTheMailboxIsTheDrivers) {
  std::size_t taken = 0;
  while (rig.engine->post(OwnerMessage{first, protocol::Heartbeat{}, monotonic_now()})) ++taken;
  EXPECT_EQ(taken, 32'768U);
  rig.engine->post_event(handoff::GrantClosed{4});
  start();
  EXPECT_TRUE(rig.core->wait_for("driver event"));
  EXPECT_TRUE(rig.engine->post(OwnerMessage{first, protocol::Heartbeat{}, monotonic_now()}));
}

TEST_F(EngineThreadTest, LeasesAreLookedAtWhileNothingIsComputed) {  // HNG-04
  start();
  const Instant before = rig.engine->last_progress();
  EXPECT_TRUE(rig.core->wait_for("tick", 3));
  EXPECT_GT(rig.engine->last_progress(), before);
}

TEST_F(EngineThreadTest, EachOwnerThatIsNamedGetsItsInventory) {
  rig.core->held = {{first, {key}}};
  post(SendInventories{{first, second}});
  post(StartDraining{});
  start();
  ASSERT_TRUE(rig.core->wait_for("drain"));
  EXPECT_THAT(inventories(), ElementsAre(first, second));
  const auto sent = rig.sent();
  const auto keys_of = [](const auto& each) {
    return std::get<protocol::Inventory>(std::get<ToOwner>(each).message).keys;
  };
  EXPECT_THAT(keys_of(sent.at(0)), ElementsAre(key));
  EXPECT_THAT(keys_of(sent.at(1)), IsEmpty());  // tells the owner what is not here
}

TEST_F(EngineThreadTest, EachEffectGoesWhereItBelongs) {
  rig.core->on_note = [&](const std::string& note) {
    if (!note.starts_with("connected")) return;
    rig.core->effects.push_back(ToOwner{first, protocol::Gone{key}});
    rig.core->effects.push_back(Counted{Countable::orphan_freed, Reason::unknown_request, {}});
    rig.core->effects.push_back(ToPair{handoff::LinkId(3), protocol::Accepted{key}});
  };
  post(OwnerConnected{first});
  start();
  ASSERT_TRUE(rig.core->wait_for("connected"));
  ASSERT_TRUE(rig.core->wait_turn());
  const auto sent = rig.sent();
  ASSERT_EQ(sent.size(), 2U);
  EXPECT_EQ(std::get<ToOwner>(sent[0]).owner, first);
  EXPECT_EQ(std::get<ToPair>(sent[1]).link, handoff::LinkId(3));
  EXPECT_EQ(rig.metric({"baton_orphans_freed_total"}), 1);
}

TEST_F(EngineThreadTest, CommandsOfTheCoreReachTheDriver) {
  class Closed : public Deaf {
   public:
    void grant_closed(std::uint64_t grant) override { closed = grant; }
    std::atomic<std::uint64_t> closed = 0;
  } listener;
  rig.make_driver(listener);
  rig.driver->start();
  rig.core->on_note = [&](const std::string& note) {
    if (note != "connected r/1") return;
    rig.core->effects.push_back(
        ToDriver{handoff::OpenGrant{key, {7, 16, {{0, 1, 0, {{0, 1, 1}}}}}, {{1, 0, {0}}}}});
    rig.core->effects.push_back(ToDriver{handoff::CloseGrant{7}});
  };
  post(OwnerConnected{first});
  start();
  const Instant end = monotonic_now() + std::chrono::seconds(20);
  while (listener.closed != 7 && monotonic_now() < end) std::this_thread::yield();
  EXPECT_EQ(listener.closed, 7U);
  rig.stop();
}

TEST_F(EngineThreadTest, MailIsLookedAtAfterEveryLayerOfAStep) {
  rig.core->on_note = [&](const std::string& note) {
    if (note == "layer 0") post(OwnerMessage{first, protocol::Cancel{key}, monotonic_now()});
  };
  rig.core->plan = plan_of_a_prompt();
  start();
  ASSERT_TRUE(rig.core->wait_for("step done"));
  EXPECT_THAT(heard(), ElementsAre("layer 0", "cancel of r/1", "layer 1", "step done"));
}

TEST_F(EngineThreadTest, WhatALayersEndBringsForthDoesNotWaitForTheStep) {
  std::size_t sent_at_layer_1 = 0;
  rig.core->on_note = [&](const std::string& note) {
    if (note == "layer 0") rig.core->effects.push_back(ToOwner{first, protocol::Gone{key}});
    if (note == "layer 1") sent_at_layer_1 = rig.sent().size();
  };
  rig.core->plan = plan_of_a_prompt();
  start();
  ASSERT_TRUE(rig.core->wait_for("step done"));
  EXPECT_EQ(sent_at_layer_1, 1U);
}

TEST_F(EngineThreadTest, NothingIsBegunWhileTheDriverIsBehind) {
  for (std::uint64_t grant = 1; !rig.driver->is_behind(); ++grant) {
    rig.driver->post(handoff::EngineCommand(handoff::CloseGrant{grant}));
  }
  rig.core->plan = plan_of_a_prompt();
  start();
  ASSERT_TRUE(rig.core->wait_turn());
  EXPECT_FALSE(rig.engine->post(OwnerConnected{first}));
  rig.engine->post_event(handoff::GrantClosed{4});  // an end is heard all the same
  ASSERT_TRUE(rig.core->wait_for("driver event"));
  EXPECT_THAT(heard(), ElementsAre("driver event"));
  rig.driver->start();
  EXPECT_TRUE(rig.core->wait_for("step done"));
  EXPECT_TRUE(rig.engine->post(OwnerConnected{first}));
}

TEST_F(EngineThreadTest, NoStepBeginsWhileItsMessagesWouldOnlyPileUp) {
  std::atomic<std::size_t> calls = 0;  // of the outbox: one has what a turn brought forth
  rig.delivers = false;
  rig.on_sent = [&] { ++calls; };
  rig.core->on_note = [&](const std::string& note) {
    if (note == "connected r/1") {
      rig.core->effects.push_back(ToOwner{first, protocol::Gone{key}});
    }
    if (note == "connected s/2") rig.core->plan = plan_of_a_prompt();
  };
  start();
  const Instant end = monotonic_now() + std::chrono::seconds(20);
  for (std::size_t turn = 0; turn < 4096; ++turn) {
    post(OwnerConnected{first});
    while (calls == turn && monotonic_now() < end) std::this_thread::yield();
  }
  ASSERT_EQ(calls, 4096U);
  post(OwnerConnected{second});
  ASSERT_TRUE(rig.core->wait_for("connected s/2"));
  ASSERT_TRUE(rig.core->wait_turn());
  EXPECT_THAT(heard(), testing::Not(testing::Contains("step done")));
  rig.engine->delivered();
  EXPECT_TRUE(rig.core->wait_for("step done"));
}

TEST_F(EngineThreadTest, StepsAreCountedByPhase) {
  rig.core->plan = plan_of_a_prompt();
  start();
  ASSERT_TRUE(rig.core->wait_for("step done"));
  ASSERT_TRUE(rig.core->wait_turn());
  EXPECT_EQ(rig.metric({"baton_steps_total"}), 1);
  EXPECT_EQ(rig.metric({"baton_forward_rows_total", "phase=\"prefill\""}), 3);
  EXPECT_EQ(rig.metric({"baton_forward_rows_total", "phase=\"decode\""}), 0);
}

TEST_F(EngineThreadTest, AStepThatFailsIsToldToTheCore) {
  rig.core->plan = {.prefill = {{engine::SequenceId(99), 0, 3}}};
  start();
  EXPECT_TRUE(rig.core->wait_for("step failed"));
}

TEST_F(EngineThreadTest, TheCoresLoadCanBeReadBySomebodyElse) {
  rig.core->load_now.running = 3;
  rig.core->idle_now = false;
  rig.core->on_note = [&](const std::string& note) {
    if (note.starts_with("connected")) rig.core->load_now.running = 5;
  };
  start();
  EXPECT_EQ(rig.engine->status().load.running, 3);  // from the start on
  EXPECT_FALSE(rig.engine->status().idle);
  post(OwnerConnected{first});
  ASSERT_TRUE(rig.core->wait_for("connected"));
  ASSERT_TRUE(rig.core->wait_turn());
  EXPECT_EQ(rig.engine->status().load.running, 5);
  EXPECT_EQ(rig.metric({"baton_running_requests"}), 5);
}

TEST_F(EngineThreadTest, FreedBlocksArePoisonedBeforeWhatFollowsIsTold) {
  // Later, it would overwrite what arrives for a grant of these blocks.
  kvcache::BlockPools& pools = rig.core->pools();
  kvcache::SequenceBlocks blocks;
  ASSERT_TRUE(pools.extend(blocks, {0, 16, 16}));
  const std::byte* memory =
      rig.model.arena->block(0, 0, tensor::KvPart::k, blocks.group(0).blocks()[0]);
  std::byte seen{};
  rig.on_sent = [&] { seen = *memory; };
  rig.core->on_note = [&](const std::string& note) {
    if (!note.starts_with("connected")) return;
    pools.release(blocks);
    rig.core->effects.push_back(ToOwner{first, protocol::Gone{key}});
  };
  post(OwnerConnected{first});
  start();
  ASSERT_TRUE(rig.core->wait_for("connected"));
  ASSERT_TRUE(rig.core->wait_turn());
  EXPECT_EQ(seen, std::byte{0xDD});
}

TEST_F(EngineThreadTest, AfterItsEndMailIsRefusedAndEventsAreNobodys) {
  start();
  rig.engine->stop();
  EXPECT_FALSE(rig.engine->post(OwnerConnected{first}));
  rig.engine->post_event(handoff::GrantClosed{4});
  const std::vector<std::string> notes = rig.core->notes();
  EXPECT_EQ(std::count(notes.begin(), notes.end(), "driver event"), 0);
}

}  // namespace
}  // namespace baton::worker
